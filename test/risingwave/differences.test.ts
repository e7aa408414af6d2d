/** docs/operating/events-api.md has the differences that the comparison is held to; `HEADGATE_GOLDEN=write` writes them. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { differencesTable } from './differences.ts';

test('docs/operating/events-api.md lists every decided difference from events-api', () => {
  const path = fileURLToPath(new URL('../../../docs/operating/events-api.md', import.meta.url));
  const page = readFileSync(path, 'utf8');
  const [start, end] = ['<!-- differences:start -->\n', '<!-- differences:end -->'];
  const [before, after] = [page.slice(0, page.indexOf(start) + start.length), page.slice(page.indexOf(end))];
  const wanted = `${before}${differencesTable()}\n${after}`;
  if (process.env['HEADGATE_GOLDEN'] === 'write') writeFileSync(path, wanted);
  else assert.equal(page, wanted);
});
