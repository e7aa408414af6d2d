/**
 * The table of docs/operating/engines.md: each place that Headgate runs in, as it is tried here and now. `npm run test:engines` fetches what
 * can be fetched, runs this, and prints the table. A place passes when everything works there, or when its start is refused as it should be.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { writeFile } from 'node:fs/promises';
import { findTool, skipFor } from '../support/tools.ts';
import { hasCitus } from './citus.ts';
import { conditions } from './places.ts';
import { tryPlace } from './trial.ts';
import type { Row } from './trial.ts';

const rows: Row[] = [];
const untried: string[] = hasCitus
  ? []
  : ['Citus: CITUS_BIN does not name the programs of a PostgreSQL that has it'];
const words = (process.env['HEADGATE_ENGINES_ONLY'] ?? '').split(',').filter((word) => word !== '');

for (const { name, needs = [], open, refused } of conditions) {
  if (words.length > 0 && !words.some((word) => name.toLowerCase().includes(word.toLowerCase()))) continue;
  test(`Headgate works, or refuses to start, with ${name}`, async (t) => {
    const missing = needs.filter((it) => findTool(it) === null);
    if (missing.length > 0) {
      untried.push(`${name}: ${missing.join(', ')} not installed`);
      return skipFor(t, missing.join(', '));
    }
    const row = await tryPlace(t, name, await open(t));
    rows.push(row);
    if (refused !== undefined) return assert.match(row.start, refused);
    for (const cell of [row.start, row.ddl, row.ingest, row.fresh, row.faults]) assert.match(cell, /^●/);
  });
}

after(async () => {
  const { HEADGATE_ENGINES_TABLE: file = '/dev/null' } = process.env;
  await writeFile(file, JSON.stringify({ rows, untried }));
});
