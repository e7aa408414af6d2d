import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { emptyIsNoValue } from './conversions.ts';

test('an empty field of a form is NULL only for types whose input refuses an empty text', async (t) => {
  const client = await (await testDatabase(t)).connect();
  const { rows } = await client.query<{ oid: number; name: string }>(
    `SELECT oid::int, format_type(oid, NULL) AS name FROM pg_type
     WHERE oid < 10000 AND typtype = 'b' AND typcategory IN ('B', 'D', 'I', 'N', 'S', 'T', 'U', 'V')`,
  );
  for (const { oid, name } of rows) {
    const refused = await client.query(`SELECT ''::${name}`).then(
      () => false,
      () => true,
    );
    // What is refused and not in the list stays refused: types that nobody fills from a form.
    if (emptyIsNoValue.has(oid)) assert.ok(refused, name);
    else if (refused)
      assert.doesNotMatch(
        name,
        /^(?:smallint|integer|bigint|numeric|boolean|date|time|timestamp|interval|real|double precision|uuid|jsonb?|inet|cidr)\b/,
        name,
      );
  }
});
