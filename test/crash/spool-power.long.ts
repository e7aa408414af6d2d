/**
 * The power fails, on a file system that forgets what nobody synced: while requests are kept, while they are handed over, and while
 * Headgate starts over them. Beside the model of every system call in src/spool/files.test.ts this is the real one.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { LazyDisk } from '../support/lazy-disk.ts';
import { Ledger } from '../support/ledger.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { seededRandom } from '../support/random.ts';
import { skipFor } from '../support/tools.ts';
import { within } from '../support/within.ts';

const secret = 'power test';

test('a power failure leaves each request answered 200 or 202 stored exactly once', async (t) => {
  const program = process.env['HEADGATE_LAZYFS'];
  if (program === undefined) return skipFor(t, 'LazyFS (HEADGATE_LAZYFS)');
  const { random, seed } = seededRandom();
  const rounds = Number(process.env['HEADGATE_TEST_ROUNDS'] ?? 100);
  const disk = await LazyDisk.mount(t, program);
  const server = await MortalServer.start(t);
  const dataDir = await temporaryFolder(t);
  const env = {
    HEADGATE_DATABASE_URL: server.databaseUrl,
    HEADGATE_SPOOL: 'fallback',
    HEADGATE_SPOOL_DIR: join(disk.folder, 'spool'),
    // Segments are begun and taken away all the time.
    HEADGATE_SPOOL_BYTES: String(16 * 1024 * 1024),
    HEADGATE_BODY_BYTES_MAX: '65536',
  };
  let headgate = await startHeadgate(t, { dataDir, env });
  const sql = await headgate.client(t, 'postgres');
  await sql.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const target = () => `${headgate.webhookUrl}/postgres/public/ledger`;
  let url: string | null = target();
  await within(30_000, async () => assert.equal(await ledger.send(target()), 200));
  const load = ledger.run(() => url, 16);
  let whileAway = 0;
  for (let round = 0; round < rounds; round++) {
    // The moment of the failure is part of the experiment, not a wait for something.
    await delay(random() * 300);
    if (server.isRunning ? random() < 0.6 : random() < 0.4)
      await (server.isRunning ? server.kill() : server.start());
    await delay(random() * 300);
    url = null;
    await headgate.signal('SIGKILL');
    await disk.failPower();
    if (!server.isRunning) whileAway += 1;
    headgate = await (await spawnHeadgate(t, { dataDir, env })).ready();
    url = target();
  }
  await server.start();
  await within(60_000, async () => assert.equal(await ledger.send(target()), 200));
  ledger.stop();
  await load;
  const client = await headgate.client(t, 'postgres');
  await within(60_000, async () => assert.deepEqual((await client.query('SHOW SPOOL')).rows, []));
  const tally = await ledger.tally(await server.connect(t), 'ledger');
  t.diagnostic(
    `seed ${seed}: ${rounds} failures, ${whileAway} of them without the database; ${tally.sent} sent, ` +
      `${tally.committed} answered 200, ${tally.kept} 202, ${tally.refused} refused, ${tally.unanswered} unanswered`,
  );
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] }, `seed ${seed}`);
  assert.ok(tally.kept > rounds && whileAway > rounds / 10);
});
