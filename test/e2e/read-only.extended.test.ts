/** A server that stops taking writes while Headgate is connected to it, as managed databases do when a disk is full. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { within } from '../support/within.ts';

test('a database that turns read-only gives 503 until it is writable again', async (t) => {
  const server = await startTcpServer();
  onEnd(t, 'server', () => server.close());
  const url = `postgresql://root@127.0.0.1:${server.port}/postgres`;
  const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url } });
  const client = await headgate.client(t, 'postgres');
  await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
  const post = async () => headgate.post('postgres/public/t', '{}');
  assert.equal((await post()).status, 200);
  const committers = async () => {
    const { rows } = await client.query<{ pids: string }>(
      `select string_agg(pid::text, ',' order by pid) as pids from pg_stat_activity where application_name like 'headgate commit%'`,
    );
    return rows[0]?.pids;
  };
  const before = await committers();
  const readOnly = async (is: 'on' | 'off') => {
    await server.run(`alter system set default_transaction_read_only = ${is}`);
    await server.run('select pg_reload_conf()');
  };
  const setRole = (is: 'on' | 'off') =>
    server.run(
      `begin; set transaction read write; alter role root set default_transaction_read_only = ${is}; commit`,
    );
  const readiness = async () => (await asked(`${headgate.adminUrl}/readyz`)).text;
  assert.equal(await readiness(), '{"status":"ready"}');
  await readOnly('on');
  await within(10_000, async () => assert.match(await readiness(), /nothing can be written: .*read-only/));
  await within(10_000, async () => {
    const { status, headers, text } = await post();
    assert.equal(status, 503);
    assert.ok(headers.get('retry-after') !== null);
    assert.match(text, /"code":"engine_unavailable"/);
  });
  await readOnly('off');
  await within(10_000, async () => assert.equal((await post()).status, 200));
  assert.notEqual(await committers(), before);
  await within(10_000, async () => assert.equal(await readiness(), '{"status":"ready"}'));

  // A setting that connections have from their beginning is seen by none that is open already: a commit finds it out.
  await setRole('on');
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'headgate commit%'`,
  );
  await within(20_000, async () => {
    assert.equal((await post()).status, 503);
    assert.match(await readiness(), /nothing can be written: cannot execute CREATE TABLE AS in a read-only/);
  });
  await setRole('off');
  await within(20_000, async () => assert.equal(await readiness(), '{"status":"ready"}'));

  // Sessions that begin meanwhile keep it: Headgate's own are not asked what new ones have.
  await setRole('on');
  await server.run(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'headgate%' and pid <> pg_backend_pid()`,
  );
  await within(20_000, async () => assert.match(await readiness(), /the database is read-only/));
  await setRole('off');
  await within(20_000, async () => assert.equal(await readiness(), '{"status":"ready"}'));
});
