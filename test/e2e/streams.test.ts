/**
 * Rows that are followed while Headgate and its engine are killed: each that was answered 200 is told to every reader of the stream, and sent on once by
 * `headgate listen`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createClient } from '../../src/client/client.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { startReceiver } from '../support/receiver.ts';
import { breath, times } from '../support/sample.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

/** The numbers that a program of the developer's got of `headgate listen`, in turn. */
async function listening(t: TestContext, sqlPort: number, dataDir: string): Promise<readonly number[]> {
  const got: number[] = [];
  const host = await startReceiver(t, (request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('end', () => {
      got.push((JSON.parse(body) as { n: number }).n);
      response.end();
    });
  });
  const to = `http://${host}/`;
  // The table's owner: a superuser does not read it.
  const dsn = `postgresql://headgate_gateway@127.0.0.1:${sqlPort}/dev`;
  const args = [cli, 'listen', 'single', '--forward-to', to, '--dsn', dsn, '--state', `${dataDir}.place`];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(child, 'exit');
  onEnd(t, 'listen', async () => {
    child.kill('SIGINT');
    await ended;
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  await until(() => said.includes('listening to') || child.exitCode !== null);
  assert.equal(child.exitCode, null, said);
  return got;
}

test('three stream readers, one of them slow, miss no row while Headgate and its engine are killed under load', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'data');
  let headgate = await startHeadgate(t, { dataDir });
  const args = headgate.samePorts;
  const again = () => startHeadgate(t, { dataDir, args });
  const url = headgate.gatewayUrl;
  const client = createClient({ url, retries: 1_000, retryMs: 60_000 });
  await client.query("CREATE TABLE followed (data JSONB) WITH (connector = 'webhook', is_batched = true)");

  await client.query("CREATE TABLE single (data JSONB) WITH (connector = 'webhook')");
  const sentOn = await listening(t, headgate.ports.sql.port, dataDir);

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
      await breath();
    }
  });
  const answered: number[] = [];
  const lone = (async () => {
    for (let n = 1; !enough.signal.aborted; n++) {
      const answer = await headgate.post('dev/public/single', `{"n":${n}}`).catch(() => null);
      if (answer?.status === 200) answered.push(n);
      else await pause(20);
      await breath();
    }
  })();
  const more = async (): Promise<void> => {
    const wanted = stored.length + 2_000;
    await until(() => stored.length >= wanted);
  };
  await more();
  for (let round = 0; round < times(1, 2); round++) {
    await headgate.signal('SIGKILL');
    headgate = await again();
    await more();
    const [engine = ''] = (await readFile(join(dataDir, 'pg/postmaster.pid'), 'utf8')).split('\n');
    process.kill(Number(engine), 'SIGKILL');
    await more();
  }
  enough.abort();
  await Promise.all([...senders, lone]);
  for (const { seen, told } of readers) {
    await until(() => stored.every((n) => seen.has(n)));
    assert.ok(told() < 3 * stored.length, `${told()} events for ${stored.length} rows`);
  }
  await until(() => answered.every((n) => sentOn.includes(n)));
  assert.equal(new Set(sentOn).size, sentOn.length, 'sent on twice');
  assert.ok(answered.length >= 10, `${answered.length}`);
  ending.abort();
  await Promise.all(readers.map(({ reading }) => reading));
});
