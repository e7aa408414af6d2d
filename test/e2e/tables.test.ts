/** Webhook tables of any columns through the SQL door: made, refused, shown, rolled back, by both protocols. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DatabaseError } from 'pg';
import { startHeadgate } from '../support/headgate.ts';

const columns = `(
  id BIGINT PRIMARY KEY, name STRING NOT NULL, tags STRING[], seen TIMESTAMPTZ DEFAULT now(), total NUMERIC(12,2) CHECK (total >= 0)
) INCLUDE HEADER 'X-Request-Id' AS request_id INCLUDE HEADERS AS "all" INCLUDE TIMESTAMP AS at
  WITH (connector = 'webhook', is_batched = true, on_type_error = 'null')
  VALIDATE SECRET s USING github`;

const shown = `CREATE TABLE public.orders (
  id bigint NOT NULL,
  name text NOT NULL,
  tags text[],
  seen timestamp with time zone DEFAULT now(),
  total numeric(12,2),
  request_id text,
  "all" jsonb,
  at timestamp with time zone,
  CONSTRAINT orders_pkey PRIMARY KEY (id),
  CONSTRAINT orders_total_check CHECK ((total >= (0)::numeric))
)
INCLUDE HEADER 'x-request-id' AS request_id
INCLUDE HEADERS AS "all"
INCLUDE TIMESTAMP AS at
WITH (
  connector = 'webhook',
  is_batched = 'true',
  on_type_error = 'null'
)
VALIDATE SECRET public.s AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, payload, 'sha256'), 'hex'))
ANSWER STATUS 200`;

test('typed tables are made, shown and made again', async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'x'`);
  const show = async () =>
    (await client.query<Record<string, string>>('SHOW CREATE TABLE orders')).rows[0]?.['Create Sql'];
  await client.query(`CREATE TABLE orders ${columns}`);
  assert.equal(await show(), shown);
  await client.query('DROP TABLE orders');
  await client.query({ name: 'again', text: shown });
  assert.equal(await show(), shown);
  await client.query(`BEGIN; DROP TABLE orders; CREATE TABLE orders (a JSONB, PRIMARY KEY (b)) INCLUDE TIMESTAMP AS b
    WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'a', s) AND a IS NOT NULL; ROLLBACK`);
  assert.equal(await show(), shown);
});

test('a table that cannot work is refused, and the error points at the place', async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  const hook = `WITH (connector = 'webhook')`;
  const refused: readonly (readonly [string, string])[] = [
    [`CREATE TABLE t (a STRING, b STRING[], c ¶nosuch) INCLUDE TIMESTAMP AS at ${hook}`, '42704'],
    [`CREATE TABLE t (a DOUBLE, CHECK (at > ¶nosuch)) INCLUDE TIMESTAMP AS at ${hook}`, '42703'],
    [`SELECT 'ü'; CREATE TABLE t ¶(a TEXT) INCLUDE HEADER 'x' AS a ${hook}`, '0A000'],
    [`CREATE TABLE t (a INT) WITH (connector = 'webhook', format = 'form', is_batched = ¶true)`, '0A000'],
    [`CREATE TABLE t (a INT) INCLUDE HEADERS AS b INCLUDE HEADER 'x' AS ¶b ${hook}`, '42701'],
  ];
  for (const [marked, code] of refused) {
    const text = marked.replace('¶', '');
    // A prepared statement is one statement.
    for (const query of [text, ...(text.includes(';') ? [] : [{ name: text.slice(0, 60), text }])]) {
      const failure = await client.query(query).then(
        () => assert.fail(text),
        (error: unknown) => error as DatabaseError,
      );
      assert.equal(failure.code, code, failure.message);
      // A position counts characters, from 1.
      assert.equal(Number(failure.position), marked.indexOf('¶') + 1, text);
    }
  }
});
