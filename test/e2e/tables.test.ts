/** Webhook tables of any columns through the SQL door: made, refused, shown, rolled back, by both protocols. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DatabaseError } from 'pg';
import { sharedHeadgate } from '../support/headgate.ts';

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

// What these programs ask of a PostgreSQL's catalog to list what can be read: the relations, columns and functions of their queries, in
// words of our own. Grafana: grafana/grafana 12f912a, grafana-postgresql-datasource/postgresMetaQuery.ts. Metabase: metabase/metabase
// 008fd66, src/metabase/driver/postgres.clj. Both ask by the extended protocol.
const path = `(SELECT trim(p) FROM unnest(string_to_array(replace(current_setting('search_path'), '"$user"', user), ',')) AS p)`;
const asked: readonly (readonly [string, string, readonly unknown[], readonly unknown[]])[] = [
  [
    'Grafana: version',
    `SELECT current_setting('server_version_num')::int / 100 >= 1400 AS v`,
    [],
    [{ v: true }],
  ],
  ['Grafana: TimescaleDB', `SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'`, [], []],
  [
    'Grafana: schemas',
    `SELECT schema_name AS name FROM information_schema.schemata WHERE schema_name IN ('public', 'shop') ORDER BY 1`,
    [],
    [{ name: 'public' }, { name: 'shop' }],
  ],
  [
    'Grafana: tables',
    `SELECT CASE WHEN quote_ident(table_schema) IN ${path} THEN '' ELSE quote_ident(table_schema) || '.' END || quote_ident(table_name) AS name
      FROM information_schema.tables WHERE table_schema IN ('public', 'shop') ORDER BY 1`,
    [],
    [{ name: '"In box"' }, { name: 'shop.orders' }],
  ],
  [
    'Grafana: columns',
    `SELECT quote_ident(column_name) AS name, data_type AS type FROM information_schema.columns
      WHERE quote_ident(table_schema) = (parse_ident($1))[1] AND quote_ident(table_name) = (parse_ident($1))[2] ORDER BY ordinal_position`,
    ['shop.orders'],
    [
      { name: 'id', type: 'bigint' },
      { name: 'data', type: 'jsonb' },
      { name: '"At"', type: 'timestamp with time zone' },
    ],
  ],
  [
    'Metabase: tables',
    `SELECT n.nspname AS schema, c.relname AS name, c.relkind AS kind, d.description, s.n_live_tup AS rows FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
      LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
      LEFT JOIN pg_stat_user_tables s ON n.nspname = s.schemaname AND c.relname = s.relname
      WHERE n.nspname !~ '^pg_' AND c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname = ANY ($1) ORDER BY 1, 2`,
    [['public', 'shop']],
    [
      { schema: 'public', name: 'In box', kind: 'r', description: null, rows: '0' },
      { schema: 'shop', name: 'orders', kind: 'r', description: 'from the shop', rows: '0' },
    ],
  ],
  [
    'Metabase: columns and keys',
    `SELECT c.column_name AS name, c.udt_name AS type, c.is_nullable = 'NO' AS required, k.column_name IS NOT NULL AS key,
        col_description(format('%I.%I', c.table_schema, c.table_name)::regclass::oid, c.ordinal_position) AS comment
      FROM information_schema.columns c
      LEFT JOIN (information_schema.table_constraints t JOIN information_schema.key_column_usage k
          USING (constraint_name, table_schema, table_name))
        ON t.constraint_type = 'PRIMARY KEY' AND (c.table_schema, c.table_name, c.column_name) = (t.table_schema, t.table_name, k.column_name)
      WHERE c.table_name = $1 ORDER BY c.ordinal_position`,
    ['orders'],
    [
      { name: 'id', type: 'int8', required: true, key: true, comment: null },
      { name: 'data', type: 'jsonb', required: false, key: false, comment: 'as it came' },
      { name: 'At', type: 'timestamptz', required: false, key: false, comment: null },
    ],
  ],
  [
    'Metabase: enums',
    `SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
      WHERE n.nspname = 'shop' AND t.oid IN (SELECT enumtypid FROM pg_enum)`,
    [],
    [],
  ],
  [
    'Metabase: foreign keys',
    `SELECT f.relname AS name, a.attname AS column FROM pg_constraint c JOIN pg_class f ON c.conrelid = f.oid
      JOIN pg_attribute a ON a.attrelid = f.oid AND a.attnum = ANY (c.conkey) WHERE c.contype = 'f'::char AND f.relname = $1`,
    ['orders'],
    [],
  ],
  [
    'Metabase: indexes',
    `SELECT trim(both '"' FROM pg_get_indexdef(of.oid, of.at, false)) AS name FROM (
        SELECT i.indexrelid AS oid, (information_schema._pg_expandarray(i.indkey)).n AS at FROM pg_index i
        WHERE i.indrelid = $1::regclass AND pg_get_expr(i.indpred, i.indrelid) IS NULL) of WHERE at = 1`,
    ['shop.orders'],
    [{ name: 'id' }],
  ],
  ['Metabase: time zone', 'show timezone', [], [{ TimeZone: 'UTC' }]],
];

const shared = sharedHeadgate();

test('typed tables are created, shown and recreated', async (t) => {
  const headgate = await shared();
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

  await t.test(
    'the catalog queries of Grafana and Metabase find webhook tables and their columns',
    async () => {
      await client.query(`DROP TABLE orders; CREATE SCHEMA shop; CREATE TABLE "In box" (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, data JSONB) INCLUDE TIMESTAMP AS "At" WITH (connector = 'webhook');
      COMMENT ON TABLE shop.orders IS 'from the shop'; COMMENT ON COLUMN shop.orders.data IS 'as it came'; SET timezone = 'UTC'`);
      for (const [name, text, values, rows] of asked)
        assert.deepEqual((await client.query({ name, text, values: [...values] })).rows, rows, name);
    },
  );
});

test('CREATE TABLE refuses a table that cannot work with a position in the statement', async (t) => {
  const headgate = await shared();
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
