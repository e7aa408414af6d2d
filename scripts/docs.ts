/** Writes the generated pages under docs/: `npm run docs`. A test compares the pages with this output. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generatedPages } from './generated-pages.ts';

const root = new URL('../../', import.meta.url);
for (const [path, text] of generatedPages()) {
  const file = fileURLToPath(new URL(path, root));
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}
