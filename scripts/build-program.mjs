// Bundles the program with the packages it uses: `cli.js`, `embed.js` and the listener process's entry are reduced to imports
// from a few files in dist/src/program instead of some 500, and start in a third of the time (docs/decisions/0116). A command still loads only what
// it needs. The modules themselves stay for tests. The files are CommonJS, of which V8 can keep the compiled code: esbuild
// splits only ES modules, so they are rewritten.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';

const entries = ['app/cli', 'app/embed', 'app/listeners/entry'];
/** In dist/; what tsc has made of them is written over. */
export const entryFiles = entries.map((name) => `src/${name}.js`);

/** Gives the files made in dist/, and as its note those read and the entries' new text, which is written when tsc is done. */
export async function buildProgram(root, { sourcemap }) {
  const dist = join(root, 'dist');
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: entries.map((name) => `src/${name}.ts`),
    outdir: 'dist/src',
    outExtension: { '.js': '.cjs' },
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    // Only pg uses it, to detect Cloudflare; in Node 20 that loads all of fetch, a twentieth of a start.
    define: { Response: 'undefined', 'import.meta.url': 'moduleUrl' },
    // Packages with a data file of their own, binaries, or used by one command only; and those that pg and ws use if somebody has installed them.
    external: ['libpg-query', 'bufferutil', 'utf-8-validate', 'pg-native', '@kubernetes/client-node'],
    // In a folder of the same depth as the rooms: what a module finds relative to itself (migrations, the page) is found from here, too.
    entryNames: 'program/[name]',
    chunkNames: 'program/[name]-[hash]',
    sourcemap,
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  const loader = 'src/app/load.cjs';
  const files = new Map([
    ...outputFiles.map(({ path, text }) => [
      relative(dist, path),
      path.endsWith('.cjs') ? commonJs(constants(root, text), metafile.outputs[relative(root, path)]) : text,
    ]),
    ['src/program/load.cjs', readFileSync(join(root, loader), 'utf8')],
    ['src/program/LICENSES', licences(root, Object.keys(metafile.inputs))],
  ]);
  mkdirSync(join(dist, 'src/program'), { recursive: true });
  for (const [path, text] of files) writeFileSync(join(dist, path), text);
  const entryTexts = Object.values(metafile.outputs).flatMap(({ entryPoint, exports }) => {
    const path = entryPoint?.replace(/\.ts$/, '.js');
    return entryFiles.includes(path) ? [[path, entryText(path, exports)]] : [];
  });
  return {
    made: [...files.keys(), ...entryFiles],
    note: { inputs: [...Object.keys(metafile.inputs), loader], entries: Object.fromEntries(entryTexts) },
  };
}

/**
 * Converts an ES module as printed by esbuild, in which each `import` starts a line and the single `export` comes last. There are no import cycles,
 * and no exported variable changes later (the linter's import/no-mutable-exports), so plain names suffice. Lines stay where they are, for the source
 * map.
 */
function commonJs(text, { imports }) {
  let found = 0;
  const required = (from, to) => text.replaceAll(from, (_, ...groups) => ((found += 1), to(...groups)));
  text = required(/^import ("[^"]+");/gm, (from) => `require(${from});`);
  text = required(
    /^import (?:\* as )?([\w$]+) from ("[^"]+");/gm,
    (name, from) => `const ${name} = require(${from});`,
  );
  text = required(
    /^import (\{[^}]*\}) from ("[^"]+");/gm,
    (names, from) => `const ${names.replaceAll(' as ', ': ')} = require(${from});`,
  );
  const statements = imports.filter(({ kind }) => kind === 'import-statement').length;
  if (found !== statements) throw new Error(`${found} imports found, and there are ${statements}`);
  const body = text
    .replace(
      /^export (\{[^}]*\});(?=\n(?:\/\/#.*\n)?$)/m,
      (_, names) => `module.exports = ${names.replaceAll(/([\w$]+) as ([\w$]+)/g, '$2: $1')};`,
    )
    .replaceAll(/\bimport\(("\.\/[^"]+\.cjs")\)/g, 'Promise.resolve().then(() => require($1))')
    .replaceAll(/\bimport\(("[^"]+")\)/g, 'require("../program/load.cjs").imported($1)')
    .replace(/^#!.*/, '');
  const place = `const moduleUrl = require('node:url').pathToFileURL(__filename).href; `;
  return `'use strict'; ${body.includes('moduleUrl') ? place : ''}${body}`;
}

/**
 * esbuild prints the constants of a module as `var`, each of which V8 reads anew at every use; a `const` becomes a part of optimized code, which
 * saves a twentieth of a request's CPU time. Before each module stands a comment with its path.
 */
function constants(root, text) {
  let variables = null;
  const lines = text.split('\n').map((line) => {
    const path = /^\/\/ (\S+\.[cm]?[jt]s)$/.exec(line)?.[1];
    if (path !== undefined) variables = path.startsWith('src/') ? variablesOf(join(root, path)) : null;
    return variables === null
      ? line
      : line.replace(/^var ([\w$]+)(?= = )/, (whole, name) =>
          variables.has(name.replace(/\d+$/, '')) ? whole : `const ${name}`,
        );
  });
  return lines.join('\n');
}

/** The names that a module assigns to again; esbuild may have added a number to each. */
function variablesOf(path) {
  const declared = readFileSync(path, 'utf8').matchAll(/^(?:export )?(?:let|var) ([^=;]+)/gm);
  return new Set(
    [...declared].flatMap(([, names]) => names.match(/[\w$]+/g)).map((name) => name.replace(/\d+$/, '')),
  );
}

/** An ES module, as expected by the entry's importers and callers. */
function entryText(path, exports) {
  const [name] = /[\w-]+(?=\.js$)/.exec(path);
  const loader = relative(dirname(path), 'src/program/load.cjs');
  const loaded = `createRequire(import.meta.url)('${loader}').load('${name}');\n`;
  const line = exports.length === 0 ? loaded : `export const { ${exports.join(', ')} } = ${loaded}`;
  const shebang = name === 'cli' ? '#!/usr/bin/env node\n' : '';
  return `${shebang}import { createRequire } from 'node:module';\n\n${line}`;
}

/** The licences of the bundled packages, as they require. */
function licences(root, inputs) {
  const named = inputs.map((path) => /^(.*\bnode_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? '');
  const packages = [...new Set(named)].filter((name) => name !== '').toSorted((a, b) => (a < b ? -1 : 1));
  const texts = packages.map((name) => {
    const folder = join(root, name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? '' : readFileSync(join(folder, file), 'utf8');
    return `${name.replace(/^.*\bnode_modules\//, '')} ${version} (${license})\n\n${text.trim()}\n`;
  });
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}
