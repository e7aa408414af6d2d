/** Rows that are followed while Headgate and its engine are killed: each that was answered 200 is told to every reader. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '../../src/client/client.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { until } from '../support/until.ts';

test('killed under load, Headgate and its engine leave no gap for three readers, one of them slow', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'data');
  let headgate = await startHeadgate(t, { dataDir });
  const { gateway, listen } = headgate.ports;
  const again = () =>
    startHeadgate(t, { dataDir, args: [`--gateway-port=${gateway.port}`, `--listen-port=${listen.port}`] });
  const url = headgate.gatewayUrl;
  const client = createClient({ url, retries: 1_000, retryMs: 60_000 });
  await client.query("CREATE TABLE followed (data JSONB) WITH (connector = 'webhook', is_batched = true)");

  const ending = new AbortController();
  const readers = [0, 0, 40].map((slowMs) => {
    const seen = new Set<number>();
    let told = 0;
    const reading = (async () => {
      for await (const { row } of client.follow<{ data: { n: number } }>('followed', {
        after: '0',
        signal: ending.signal,
      })) {
        seen.add(row.data.n);
        told += 1;
        if (slowMs > 0 && told % 100 === 0) await pause(slowMs);
      }
    })().catch((error: unknown) => {
      if (!ending.signal.aborted) throw error;
    });
    return { seen, reading, told: () => told };
  });

  const stored: number[] = [];
  let next = 0;
  const enough = new AbortController();
  const senders = [1, 2, 3, 4].map(async () => {
    while (!enough.signal.aborted) {
      const batch = Array.from({ length: 100 }, () => (next += 1));
      const body = batch.map((n) => `{"n":${n},"filler":"${'f'.repeat(200)}"}`).join('\n');
      // What was not answered may be stored or not; only what was counts.
      const answer = await headgate.post('dev/public/followed', body).catch(() => null);
      if (answer?.status === 200) stored.push(...batch);
      else await pause(20);
    }
  });
  const more = async (): Promise<void> => {
    const wanted = stored.length + 4_000;
    await until(() => stored.length >= wanted);
  };
  await more();
  for (let round = 0; round < 2; round++) {
    await headgate.signal('SIGKILL');
    headgate = await again();
    await more();
    const [engine = ''] = (await readFile(join(dataDir, 'pg/postmaster.pid'), 'utf8')).split('\n');
    process.kill(Number(engine), 'SIGKILL');
    await more();
  }
  enough.abort();
  await Promise.all(senders);
  for (const { seen, told } of readers) {
    await until(() => stored.every((n) => seen.has(n)));
    assert.ok(told() < 3 * stored.length, `${told()} events for ${stored.length} rows`);
  }
  ending.abort();
  await Promise.all(readers.map(({ reading }) => reading));
});
