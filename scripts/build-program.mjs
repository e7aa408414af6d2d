// Bundles the program out of what tsc has made of it, with the packages it uses: `cli.js`, `embed.js` and the listener process's entry
// become what they import, in a few files in dist/src/program instead of some 500, which start in a third of the time
// (docs/decisions/0116). A command still loads only what it needs. The modules themselves stay for tests.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

export async function buildProgram(root, { sourcemap }) {
  const src = join(root, 'dist/src');
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ['app/cli.js', 'app/embed.js', 'app/listeners/entry.js'].map((name) => join(src, name)),
    outbase: src,
    outdir: src,
    allowOverwrite: true,
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    // Nothing but pg uses it, to ask whether this is Cloudflare; in Node 20 the answer loads all of fetch, a twentieth of a start.
    define: { Response: 'undefined' },
    // With a file of its own, binaries, or a thing of one command; and what pg and ws use where somebody has installed it.
    external: ['libpg-query', 'bufferutil', 'utf-8-validate', 'pg-native', '@kubernetes/client-node'],
    // What packages in CommonJS ask Node for.
    banner: {
      js: `import { createRequire as requireOf } from 'node:module';\nconst require = requireOf(import.meta.url);`,
    },
    // Beside the rooms: what is found from a module of a room by its own place (migrations, the page) is found from here, too.
    chunkNames: 'program/[name]-[hash]',
    sourcemap,
    metafile: true,
    logLevel: 'warning',
  });
  writeFileSync(join(src, 'program/LICENSES'), licences(root, Object.keys(metafile.inputs)));
}

/** Of the packages that are in the bundle, as they ask for it. */
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
