import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { generatedPages } from '../scripts/generated-pages.ts';

test('the generated documentation pages match the source (npm run docs writes them)', async () => {
  for (const [path, text] of generatedPages()) {
    const written = await readFile(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');
    assert.equal(written, text, path);
  }
});
