import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { clientOfServer } from '../../test/support/postgres.ts';
import { toBytes } from '../../test/support/ddl-rooms.ts';
import { literalOf, nameOf, Undecodable } from './literals.ts';
import { Scanner } from './scanner.ts';

const client = clientOfServer();

/** What one token means here; null: it is refused, or there is more than one token. */
function here(text: string, read: typeof literalOf, standardConformingStrings = true): string | null {
  const lexical = { text: toBytes(text), encoding: 'UTF8', standardConformingStrings };
  const scanner = new Scanner(lexical.text, standardConformingStrings);
  const token = scanner.next();
  if (token === null || scanner.next() !== null) return null;
  try {
    return read(token, lexical);
  } catch (error) {
    if (error instanceof Undecodable) return null;
    throw error;
  }
}

const parts = String.raw`a ' '' \ \\ \' \n \b \q \0 \1 \60 \303\251 \xc3\xa9 \xff \x4 \u00e9 \u0000 \uD83D\uDE00 \ud83d \U0001F600 \U00110000 é 😀 ; $ -- $$`;
const crumbs = [...parts.split(' '), "' \n '", "'--x\n'", '\n', ' '];
const inner = fc.array(fc.constantFrom(...crumbs), { maxLength: 6 }).map((it) => it.join(''));
const literal = fc.oneof(
  inner.map((it) => `'${it}'`),
  inner.map((it) => `E'${it}'`),
  inner.map((it) => `$x$${it}$x$`),
);

for (const standardConformingStrings of [true, false]) {
  test(`SQL literals are read as by PostgreSQL with standard_conforming_strings ${standardConformingStrings ? 'on' : 'off'}`, async () => {
    await client().query(
      `SET standard_conforming_strings = ${String(standardConformingStrings)}; SET escape_string_warning = off; SET backslash_quote = on`,
    );
    let equal = 0;
    await fc.assert(
      fc.asyncProperty(literal, async (text) => {
        const mine = here(text, literalOf, standardConformingStrings);
        const theirs: string | null = await client()
          .query({ text: `SELECT ${text}\n::text`, rowMode: 'array' })
          .then(
            (it) => String((it.rows as unknown[][])[0]?.[0]),
            () => null,
          );
        // More than one token here may still be an expression there; what is one literal here is the same there.
        if (mine !== null || here(text, () => '', standardConformingStrings) !== null) {
          assert.equal(mine, theirs, JSON.stringify(text));
          equal++;
        }
      }),
      // What a run has found once is tried in every run.
      { numRuns: 2_000, examples: [["'\\x4'--x\n'a'"], ["E'\\1'\n'2'"]] },
    );
    assert.ok(equal > 500, `only ${equal} compared`);
  });
}

test('quoted names in SQL are read as by PostgreSQL', async () => {
  for (const name of ['Abc', '"Abc"', 'ÄÖÜé_$1', '"a""b"', '"😀 x"', '_X']) {
    const { fields } = await client().query(`SELECT 1 AS ${name}`);
    assert.equal(here(name, nameOf), fields[0]?.name);
  }
});
