/** A PgBouncer that follows prepared statements (from 1.21 on; by default from 1.24), with more tables than it follows statements. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { openPgbouncer } from '../support/pooler.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { skipFor } from '../support/tools.ts';

const program = process.env['HEADGATE_ENGINES_PGBOUNCER'] ?? '';
const tables = 250;
const rounds = 3;

suite('Headgate works behind PgBouncer with prepared statements in transaction mode', () => {
  test(`webhooks to ${tables} tables in turn are all stored behind PgBouncer with prepared statements`, async (t) => {
    if (program === '') return skipFor(t, 'a PgBouncer of 1.24 or later');
    const server = await startTcpServer();
    onEnd(t, 'server', () => server.close());
    const port = await openPgbouncer(t, program, server.port, 'transaction');
    const env = {
      HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
      HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
    };
    const headgate = await startHeadgate(t, { env });
    const door = await headgate.clientAs(t, 'root', 'postgres');
    for (let i = 0; i < tables; i++)
      await door.query(
        i % 2 === 0
          ? `CREATE TABLE t${i} (id INT, s TEXT) WITH (connector = 'webhook')`
          : `CREATE TABLE t${i} (id INT PRIMARY KEY, s TEXT) WITH (connector = 'webhook', dedupe = 'header:x-id')`,
      );
    const bad: string[] = [];
    for (let round = 0; round < rounds; round++)
      for (let i = 0; i < tables; i++) {
        const id = round * tables + i;
        const { status, text } = await headgate.post(`postgres/public/t${i}`, `{"id":${id},"s":"a"}`, {
          'x-id': `${id}`,
        });
        if (status !== 200) bad.push(`round ${round}, table ${i}: ${status} ${text}`);
      }
    assert.deepEqual(bad, []);
    const direct = new Client({ host: '127.0.0.1', port: server.port, user: 'root', database: 'postgres' });
    await direct.connect();
    onEnd(t, 'direct', () => direct.end());
    const stored = Array.from({ length: tables }, (_, i) => `SELECT id FROM t${i}`).join(' UNION ALL ');
    const { rows } = await direct.query(`SELECT count(DISTINCT id)::int AS n FROM (${stored}) AS s`);
    assert.deepEqual(rows, [{ n: tables * rounds }]);
  });
});
