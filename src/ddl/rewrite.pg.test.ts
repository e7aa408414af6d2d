import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromBytes, testRooms, toBytes, utf8 } from '../../test/support/ddl-rooms.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { createRewriter } from './rewrite.ts';

const rewrite = createRewriter(testRooms());
const sent = (sql: string): string => {
  const result = rewrite(toBytes(sql), utf8);
  return result?.kind === 'rewritten' ? fromBytes(result.sql) : sql;
};

test("RisingWave's catalog names become queries where they name tables that nobody else has", () => {
  const replaced = [
    'SELECT * FROM rw_columns',
    'select name from RW_Catalog.rw_relations r join rw_schemas on true',
    'WITH x AS (SELECT 1 FROM rw_catalog . rw_schemas AS s WHERE id = 1) SELECT * FROM x',
    "SELECT 'from rw_columns'; SELECT id FROM rw_relations",
  ];
  for (const sql of replaced) assert.notEqual(sent(sql), sql);
  const left = [
    'SELECT rw_columns.name FROM t AS rw_columns',
    'SELECT * FROM "rw_columns"',
    'SELECT * FROM app.rw_columns',
    'SELECT * FROM rw_columns.t',
    'SELECT * FROM rw_columns(1)',
    "SELECT 'from rw_columns'",
    'CREATE TABLE rw_columns (a int)',
    'SELECT * FROM rw_tables',
  ];
  for (const sql of left) assert.equal(sent(sql), sql);
});

test("RisingWave's catalog names list the existing tables with RisingWave's terms", async (t) => {
  const client = await (await testDatabase(t)).connect();
  await client.query('CREATE SCHEMA app');
  await client.query(
    'CREATE TABLE app."Odd, one" (id BIGINT PRIMARY KEY, s TEXT, texts TEXT[], n NUMERIC(10,2), at TIMESTAMPTZ, doc JSON, twice BIGINT GENERATED ALWAYS AS (id * 2) STORED)',
  );
  await client.query('CREATE VIEW app.v AS SELECT 1 AS a');
  // As events-api asks.
  const columns = await client.query(
    sent(`SELECT rw_relations.id AS relation_id, rw_schemas.name AS schema, rw_columns.name AS column_name, rw_columns.data_type AS column_type,
      rw_columns.is_primary_key, rw_columns.is_hidden FROM rw_columns JOIN rw_relations ON rw_relations.id = rw_columns.relation_id
      JOIN rw_schemas ON rw_schemas.id = rw_relations.schema_id WHERE rw_relations.relation_type = 'table' ORDER BY position`),
  );
  const rows = columns.rows as Record<string, unknown>[];
  assert.deepEqual(
    rows.map((it) => [
      it['schema'],
      it['column_name'],
      it['column_type'],
      it['is_primary_key'],
      it['is_hidden'],
    ]),
    [
      ['app', 'id', 'bigint', true, false],
      ['app', 's', 'character varying', false, false],
      ['app', 'texts', 'character varying[]', false, false],
      ['app', 'n', 'numeric', false, false],
      ['app', 'at', 'timestamp with time zone', false, false],
      ['app', 'doc', 'jsonb', false, false],
      ['app', 'twice', 'bigint', false, false],
    ],
  );
  const relations = async () =>
    (
      await client.query<{ name: string; definition: string }>(
        sent("SELECT r.name, r.definition FROM rw_catalog.rw_relations r WHERE relation_type = 'table'"),
      )
    ).rows;
  const [before] = await relations();
  assert.equal(before?.name, 'Odd, one');
  await client.query('ALTER TABLE app."Odd, one" ADD COLUMN more INT');
  const [after] = await relations();
  assert.notEqual(after?.definition, before?.definition);
});
