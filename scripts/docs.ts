/** Writes the generated pages under docs/: `npm run docs`. A test holds the pages to what this gives. */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { generatedPages } from './generated-pages.ts';

const root = new URL('../../', import.meta.url);
for (const [path, text] of generatedPages()) await writeFile(fileURLToPath(new URL(path, root)), text);
