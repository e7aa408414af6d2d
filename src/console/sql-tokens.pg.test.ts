/** Where strings and comments end, and which words are keywords: PostgreSQL says it. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { clientOfServer } from '../../test/support/postgres.ts';
import { sqlPieces } from './sql-tokens.ts';

const client = clientOfServer();

const textOf = (sql: string, kind: string): string[] =>
  sqlPieces(sql)
    .filter((piece) => piece.kind === kind)
    .map(({ text }) => text);

suite("the console colours SQL by PostgreSQL's rules", () => {
  test('the coloured pieces of any SQL text add up to that text', () => {
    const crumbs = [
      `'`,
      '"',
      '$$',
      '$a$',
      '/*',
      '*/',
      '--',
      '\n',
      'é',
      '😀',
      '\u202e',
      'select',
      '1',
      "E'",
      '\\',
      ' ',
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...crumbs), { maxLength: 30 }), (parts) => {
        const sql = parts.join('');
        assert.equal(
          sqlPieces(sql)
            .map(({ text }) => text)
            .join(''),
          sql,
        );
      }),
    );
  });

  test('the console colours every reserved word of PostgreSQL as a keyword', async () => {
    const { rows } = await client().query<{ word: string }>(
      `SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')`,
    );
    assert(rows.length > 90);
    assert.deepEqual(
      rows.map(({ word }) => word).filter((word) => textOf(word, 'word')[0] !== word),
      [],
    );
  });

  test('the console colours a string or number of PostgreSQL as one piece, even with SQL inside', async () => {
    const values = [
      `'a,''b'`,
      `'-- no comment'`,
      `'/* neither'`,
      `E'\\',1'`,
      `$$,'"$$`,
      `$t$ $$,-- $t$`,
      `U&'\\0041,'`,
      `'zwei ' -- on\n'lines,'`,
      '1e-3',
      '0x1f',
    ];
    const comments = ['', ` /* , /* , */ '' */ `, ' -- ,\n'];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.constantFrom(...values), fc.constantFrom(...comments)), {
          minLength: 1,
          maxLength: 8,
        }),
        async (parts) => {
          const sql = `SELECT ${parts.map((part) => part.join('')).join(' , ')}`;
          const { fields } = await client().query(sql);
          const commas = textOf(sql, 'plain').join('').split(',').length;
          assert.equal(commas, fields.length, sql);
          assert.deepEqual(textOf(sql, 'word'), ['SELECT']);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('the console colours an unfinished string or comment as a finished one', () => {
    assert.deepEqual(textOf(`SELECT 'ab, 1`, 'string'), [`'ab, 1`]);
    assert.deepEqual(textOf('SELECT $f$ BEGIN', 'string'), ['$f$ BEGIN']);
    assert.deepEqual(textOf('SELECT 1 /* from', 'comment'), ['/* from']);
    assert.deepEqual(textOf('-- from', 'comment'), ['-- from']);
  });
});
