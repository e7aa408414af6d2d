/** SQL that is set in lines stays the statement that it was: PostgreSQL says so. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { clientOfServer } from '../../test/support/postgres.ts';
import { formatSql } from './sql-format.ts';

const client = clientOfServer();

suite("the console's SQL formatter keeps the meaning of a statement", () => {
  test('the SQL formatter begins a line with each clause and each value of a long list', () => {
    assert.equal(
      formatSql(
        `-- today\nselect date_trunc('hour', at)  AS hour, count(*), (SELECT max(n) from other o where o.id = t.id AND extract(epoch FROM o.at) > 0) AS most FROM t LEFT JOIN u USING (id)  where a IS DISTINCT FROM 'x  y' GROUP BY 1, 3 ORDER BY 1;select 1;`,
      ),
      `-- today
select date_trunc('hour', at) AS hour,
       count(*),
       (SELECT max(n)
        from other o
        where o.id = t.id AND extract(epoch FROM o.at) > 0) AS most
FROM t
LEFT JOIN u USING (id)
where a IS DISTINCT FROM 'x  y'
GROUP BY 1, 3
ORDER BY 1;
select 1;`,
    );
    assert.equal(formatSql('  SELECT  *\n FROM t  '), 'SELECT * FROM t');
    // A query at the end of a long line does not make a long text of a short one.
    const far = `${'('.repeat(3_000)}SELECT ${'1, '.repeat(3_000)}1${')'.repeat(3_000)}`;
    assert(formatSql(far).length < 20 * far.length);
    assert.equal(formatSql(far.repeat(2)), far.repeat(2));
    // What is not finished, and what two lines make one text of.
    for (const same of [`SELECT 'a`, `SELECT /* a`, `SELECT 'a'\n  'b' AS "x  y", $f$ a  b $f$`])
      assert.equal(formatSql(same), same);
  });

  test('the SQL formatter changes white space only, and formatted SQL stays as it is', () => {
    const crumbs = [
      'select',
      'from',
      'left join',
      'order by',
      'distinct',
      `'a'`,
      `E'\\''`,
      '"b c"',
      '$$ $$',
      '/* d */',
      '-- e\n',
      '\n',
      '  ',
      ' ',
      'é',
      '\u00a0',
      '-',
      ',',
      '(',
      ')',
      ';',
      '1',
      "'",
    ];
    const compact = (sql: string): string => sql.replaceAll(/[ \t\n\r\f\v]+/g, '');
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...crumbs), { maxLength: 60 }), (parts) => {
        const sql = parts.join('');
        const once = formatSql(sql);
        assert.equal(compact(once), compact(sql));
        assert.equal(formatSql(once), once);
      }),
    );
  });

  test('PostgreSQL reads the same view from original and formatted SQL', async () => {
    const definition = async (text: string): Promise<string> => {
      await client().query(`CREATE TEMP VIEW v AS ${text}`);
      const { rows } = await client().query<{ it: string }>(`SELECT pg_get_viewdef('v'::regclass) AS it`);
      await client().query('DROP VIEW v');
      return rows[0]?.it ?? '';
    };
    // Its own, and what a formatter may get wrong.
    const { rows } = await client().query<{ definition: string }>(
      `SELECT definition FROM pg_views WHERE schemaname IN ('pg_catalog', 'information_schema') AND viewname NOT LIKE 'pg_stats%'`,
    );
    assert(rows.length > 100);
    for (const sql of [
      ...rows.map((row) => row.definition),
      `SELECT 'a'\n'b' || 'c' AS x, - - 1 AS y, 2 - -1 AS z, (ARRAY[1, 2])[1] AS e, substring('abcdef' FROM 2 FOR 3) AS s, row_number() OVER (PARTITION BY g.n ORDER BY 2) AS r
       FROM generate_series(1, 3) AS g (n) NATURAL LEFT JOIN (VALUES (1, 'x'), (2, 'y')) AS v (n, s) WHERE n IS NOT DISTINCT FROM 2 -- no "end
       UNION ALL SELECT U&'!0041' UESCAPE '!', 1, 2, 3, 'd', 5 LIMIT 3`,
    ]) {
      const formatted = formatSql(sql);
      assert.notEqual(formatted, sql);
      assert.equal(await definition(formatted), await definition(sql), formatted);
    }
  });
});
