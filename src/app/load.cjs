/**
 * Loads the files of the bundled program (scripts/build-program.mjs). The build stores what V8 compiles of each in `compiled/`, so that a start
 * compiles nothing. V8 itself refuses the data of another version or of other flags, but not data that is damaged or of
 * another source of the same length: hence the checksum. Data that does not fit is ignored, and the source is compiled.
 */
'use strict';

const { existsSync, readFileSync } = require('node:fs');
const paths = require('node:path');
const { pathToFileURL } = require('node:url');
const { Script } = require('node:vm');
const { crc32 } = require('node:zlib');

const compiledFolder = paths.join(__dirname, 'compiled');
const isCompiled = existsSync(compiledFolder);
const sumBytes = 4;
const loaded = new Map();

/** The exports of `./name.cjs`, which is run once. Only Node reads source maps, and only for modules that it loads itself. */
function load(name) {
  if (process.sourceMapsEnabled) return require(pathOf(name));
  const known = loaded.get(name);
  if (known !== undefined) return known;
  const module = { exports: {} };
  const path = pathOf(name);
  const source = readFileSync(path);
  const script = scriptOf(path, source, isCompiled ? compiledOf(name, source) : undefined);
  const required = (id) => (id.startsWith('./') ? load(id.slice(2, -'.cjs'.length)) : require(id));
  script.runInThisContext()(required, module, path);
  loaded.set(name, module.exports);
  return module.exports;
}

function pathOf(name) {
  return paths.join(__dirname, `${name}.cjs`);
}

/** Named by its URL, as ES modules are. */
function scriptOf(path, source, cachedData) {
  return new Script(`(function (require, module, __filename) { ${source.toString()}\n})`, {
    filename: pathToFileURL(path).href,
    cachedData,
  });
}

/** The checksum is at the end, so that the data for V8 is aligned. */
function compiledOf(name, source) {
  let file;
  try {
    file = readFileSync(compiledPath(name));
  } catch {
    return undefined;
  }
  if (file.length <= sumBytes) return undefined;
  const data = file.subarray(0, -sumBytes);
  return file.readUInt32LE(data.length) === sumOf(source, data) ? data : undefined;
}

function compiledPath(name) {
  return paths.join(compiledFolder, `${name}.bin`);
}

function sumOf(source, data) {
  return crc32(data, crc32(source, crc32(`${process.version} ${process.arch}`)));
}

/** For modules outside the bundle. In code that was loaded from V8's compiled data, Node 20 cannot resolve `import()`. */
const imported = (id) => import(id);

module.exports = { load, imported, compiledFolder, compiledPath, pathOf, scriptOf, sumOf };
