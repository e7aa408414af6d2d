/**
 * The connections between the nodes of a Citus cluster, each answer of a worker cut off in turn, in each way in which rows are stored: a 200 is one row,
 * a 422 none, and what may be stored without a 200 is said so.
 */
import assert from 'node:assert/strict';
import type { Client } from 'pg';
import type { FaultyProxy } from '../support/faulty-proxy.ts';
import { within } from '../support/within.ts';
import type { Post } from './trial.ts';

/** Columns and options; how many requests come at a time. */
const ways: readonly [table: string, columns: string, options: string, together: number][] = [
  ['one', '(id INT, x INT)', `distribute = 'id', shards = 4`, 1],
  ['rows', '(id INT, x INT)', `distribute = 'id', shards = 4`, 6],
  ['keyed', '(id INT PRIMARY KEY, x INT)', `distribute = 'id', shards = 4`, 6],
  ['keyed_one', '(id INT PRIMARY KEY, x INT)', `distribute = 'id', shards = 4`, 1],
  ['once', '(id INT, x INT)', `distribute = 'id', shards = 4, dedupe = '$.id'`, 6],
  [
    'documents',
    '(data JSONB, part BIGINT DEFAULT txid_current())',
    `distribute = 'part', shards = 4, document = 'data'`,
    6,
  ],
  ['reference', '(data JSONB)', `distribute = 'reference'`, 6],
];
/** More messages than any transaction has. */
const cutsMax = 200;

export async function cutLinks(
  proxy: FaultyProxy,
  post: Post,
  client: Client,
  direct: Client,
): Promise<string> {
  await client.query('CREATE SCHEMA links');
  let ids = 0;
  let cuts = 0;
  let unknown = 0;
  for (const [name, columns, options, together] of ways) {
    const table = `links.${name}`;
    await client.query(`CREATE TABLE ${table} ${columns} WITH (connector = 'webhook', ${options})`);
    const send = async (said: Map<number, string>) => {
      const id = ++ids;
      const { status, text } = await post(table, `{"id":${id}}`);
      said.set(id, `${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`.trim());
    };
    const burst = async (said: Map<number, string>) => {
      await Promise.all(Array.from({ length: together }, () => send(said)));
    };
    const warm = () =>
      within(5_000, async () => {
        const said = new Map<number, string>();
        for (let time = 0; time < 4; time++) await burst(said);
        assert.deepEqual(new Set(said.values()), new Set(['200']), table);
      });
    const answers = new Map<number, string>();
    for (let message = 0, missed = 0; message < cutsMax && missed < 3; message++) {
      await warm();
      const before = proxy.cuts;
      proxy.cutAfter('server', message);
      await burst(answers);
      missed = proxy.cuts === before ? missed + 1 : 0;
      cuts += proxy.cuts - before;
    }
    proxy.cutAfter('server', Infinity);
    await direct.query('SELECT recover_prepared_transactions()');
    const id = columns.includes('data') ? `(data->>'id')::int` : 'id';
    const { rows } = await direct.query<{ id: number; n: number }>(
      `SELECT ${id} AS id, count(*)::int AS n FROM ${table} GROUP BY 1`,
    );
    const stored = new Map(rows.map((row) => [row.id, row.n]));
    const wrong = [...answers].filter(([it, said]) => {
      const n = stored.get(it) ?? 0;
      if (said === '503 commit_unknown') unknown += 1;
      return said === '200' ? n !== 1 : n > (said === '503 commit_unknown' ? 1 : 0);
    });
    assert.deepEqual(
      wrong.map(([it, said]) => `${table} ${it}: ${said}, ${stored.get(it)} rows`),
      [],
    );
  }
  await client.query('DROP SCHEMA links CASCADE');
  return `${cuts} answers of a worker cut off, ${unknown} requests unknown`;
}
