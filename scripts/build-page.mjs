// Bundles the console's page (src/console/page) into dist/console: names with hashes, and each file also compressed, so
// that nothing is compressed while Headgate runs. The page loads nothing from elsewhere. Gives the files made in dist/, and as its note those read.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

export async function buildPage(root) {
  const page = join(root, 'src/console/page');
  const folder = join(root, 'dist/console');
  mkdirSync(folder, { recursive: true });
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: [join(page, 'main.tsx'), join(page, 'style.css')],
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    outdir: folder,
    write: false,
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  const names = outputFiles.map(({ path }) => basename(path));
  const named = (pattern) => names.find((name) => pattern.test(name));
  const html = readFileSync(join(page, 'index.html'), 'utf8')
    .replace('main.js', named(/^main-\w+\.js$/))
    .replace('style.css', named(/^style-\w+\.css$/));
  const files = [
    ...outputFiles.map(({ path, contents }) => ({ name: basename(path), contents })),
    { name: 'index.html', contents: Buffer.from(html) },
    { name: 'icon.svg', contents: readFileSync(join(page, 'icon.svg')) },
  ];
  for (const { name, contents } of files) {
    writeFileSync(join(folder, name), contents);
    const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
    writeFileSync(join(folder, `${name}.br`), brotliCompressSync(contents, quality));
    writeFileSync(join(folder, `${name}.gz`), gzipSync(contents, { level: 9 }));
  }
  return {
    made: files.flatMap(({ name }) => ['', '.br', '.gz'].map((end) => `console/${name}${end}`)),
    note: [
      ...Object.keys(metafile.inputs),
      ...['index.html', 'icon.svg'].map((name) => `src/console/page/${name}`),
    ],
  };
}
