// Stores V8's compiled code of the bundled program next to it (src/app/load.cjs): all functions, so that a start compiles nothing. Valid only for
// this Node, and therefore not in the package.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { setFlagsFromString } from 'node:v8';

/** Gives the files that it made in dist/. */
export function compileProgram(root) {
  const folder = join(root, 'dist/src/program');
  const { compiledFolder, compiledPath, pathOf, scriptOf, sumOf } = createRequire(import.meta.url)(
    join(folder, 'load.cjs'),
  );
  mkdirSync(compiledFolder, { recursive: true });
  const made = [];
  for (const file of readdirSync(folder)) {
    if (!file.endsWith('.cjs') || file === 'load.cjs') continue;
    const name = file.slice(0, -'.cjs'.length);
    const source = readFileSync(pathOf(name));
    const data = eagerly(() => scriptOf(pathOf(name), source)).createCachedData();
    const sum = Buffer.alloc(4);
    sum.writeUInt32LE(sumOf(source, data));
    writeFileSync(compiledPath(name), Buffer.concat([data, sum]));
    made.push(relative(join(root, 'dist'), compiledPath(name)));
  }
  return made;
}

/**
 * By default V8 compiles a function when it is first called. The flag is restored before the data is made, because the data is marked with the flags.
 */
function eagerly(compile) {
  setFlagsFromString('--no-lazy');
  try {
    return compile();
  } finally {
    setFlagsFromString('--lazy');
  }
}
