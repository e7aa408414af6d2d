/** A start over a spool that is full: ready as soon as over an empty one, in as much memory, and all of it arrives. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fillSpool } from '../support/filled-spool.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { within } from '../support/within.ts';

const mebibyte = 1024 * 1024;
const bytesMax = Number(process.env['HEADGATE_TEST_SPOOL_MIB'] ?? 1_024) * mebibyte;
/** Beyond what a start over an empty one takes. */
const moreMsMax = 2_000;
const moreMemoryMax = 64 * mebibyte;

test(`a full spool of ${bytesMax / mebibyte} MiB does not delay a start, and is handed over when the database is back`, async (t) => {
  const server = await MortalServer.start(t, ['fsync=off', 'max_wal_size=4GB']);
  const dataDir = await temporaryFolder(t);
  const env = { HEADGATE_DATABASE_URL: server.databaseUrl, HEADGATE_SPOOL_BYTES: String(bytesMax) };
  const first = await startHeadgate(t, { dataDir, env });
  const sql = await first.client(t, 'postgres');
  await sql.query(`CREATE TABLE kept (data JSONB) WITH (connector = 'webhook', spool = 'fallback')`);
  await within(10_000, async () =>
    assert.equal((await first.post('postgres/public/kept', '{}')).status, 200),
  );
  await first.signal('SIGTERM');

  const away = async () => {
    await server.kill();
    const started = performance.now();
    const headgate = await startHeadgate(t, { dataDir, env });
    return { headgate, ms: performance.now() - started, bytes: memoryOf(headgate) };
  };
  const empty = await away();
  await empty.headgate.signal('SIGKILL');
  await server.start();
  const client = await server.connect(t);
  const text = 'x'.repeat(900);
  const requests = await fillSpool({
    dataDir,
    table: 'kept',
    client,
    together: 1_024,
    body: (id) => Buffer.from(JSON.stringify({ id, text })),
    // Full, but for the segment that is made ahead.
    more: (_, bytes) => bytes < bytesMax - 64 * mebibyte,
  });
  await client.end();
  const full = await away();
  const { headgate } = full;
  const again = await headgate.post('postgres/public/kept', JSON.stringify({ id: requests, text }));
  // A table that has more than its share is told so.
  assert.equal(again.status, 503);
  assert.equal((JSON.parse(again.text) as { code: string }).code, 'spool_full');
  const [moreMs, moreBytes] = [full.ms - empty.ms, full.bytes - empty.bytes];
  const started = performance.now();
  await server.start();
  await within(600_000, async () => {
    await delay(200);
    assert.deepEqual(await spooling(t, headgate), []);
  });
  const seconds = (performance.now() - started) / 1_000;
  const peak = peakOf(headgate);
  t.diagnostic(
    `${requests} requests: ready ${moreMs.toFixed(0)} ms later, with ${(moreBytes / mebibyte).toFixed(0)} MiB more; ` +
      `handed over in ${seconds.toFixed(1)} s, ${(requests / seconds).toFixed(0)}/s, ${(peak / mebibyte).toFixed(0)} MiB at most`,
  );
  const beside = await server.connect(t);
  const { rows } = await beside.query<{ n: number; ids: number }>(
    `select count(*)::int as n, count(distinct data->>'id')::int as ids from kept where data ? 'id'`,
  );
  assert.deepEqual(rows, [{ n: requests, ids: requests }]);
  assert(moreMs < moreMsMax, `${moreMs} ms`);
  assert(moreBytes < moreMemoryMax, `${moreBytes} bytes`);
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
});

/** Tables that SHOW SPOOL shows; while the database is not there nobody knows. */
async function spooling(t: TestContext, headgate: Headgate): Promise<readonly object[]> {
  const client = await headgate.client(t, 'postgres');
  try {
    return (await client.query<object>('SHOW SPOOL')).rows;
  } finally {
    await client.end();
  }
}

function memoryOf(headgate: Headgate, what = 'VmRSS'): number {
  const status = readFileSync(`/proc/${headgate.child.pid ?? 0}/status`, 'utf8');
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1_024;
}

function peakOf(headgate: Headgate): number {
  return memoryOf(headgate, 'VmHWM');
}
