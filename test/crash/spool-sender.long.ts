/** A sender that never repeats, as GitHub is, and a database that is restarted, fails over, and is away for a while. */
import assert from 'node:assert/strict';
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { Replicas } from '../support/replicas.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const deliveries = Number(process.env['HEADGATE_TEST_DELIVERIES'] ?? 100_000);
/** Of the third part; 600 for what it is about. */
const outageS = Number(process.env['HEADGATE_TEST_OUTAGE_S'] ?? 20);
const senders = 16;
const secret = 'sender test';

test(`${deliveries} deliveries, each sent once, are stored through a restart, a failover and ${outageS} s without a database`, async (t) => {
  const program = requireTool(t, 'initdb');
  if (program === null) return;
  const replicas = await Replicas.start(dirname(realpathSync(program)));
  onEnd(t, 'servers', () => replicas.close());
  const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: replicas.databaseUrl } });
  const client = await headgate.client(t, 'postgres');
  await client.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook', spool = 'fallback', dedupe = '$.id') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const url = `${headgate.webhookUrl}/postgres/public/ledger`;
  const progress = { sent: 0 };
  // Slow enough for some of them to be left when the database is back.
  const pauseMs = outageS > 60 ? (senders * (outageS + 60) * 1_000) / deliveries : 0;
  const load = Promise.all(
    Array.from({ length: senders }, async () => {
      while (progress.sent < deliveries) {
        progress.sent += 1;
        await ledger.send(url);
        if (pauseMs > 0) await delay(pauseMs);
      }
    }),
  );
  const until = async (share: number) => {
    while (progress.sent < deliveries * share) await delay(5);
  };
  await until(0.05);
  await replicas.stop('SIGINT');
  await replicas.again();
  await until(0.1);
  await replicas.kill();
  await replicas.promote();
  await until(0.15);
  await replicas.follow();
  await until(0.2);
  await replicas.kill();
  // The length of the outage is part of the experiment, not a wait for something.
  await delay(outageS * 1_000);
  await replicas.again();
  await load;
  await within(120_000, async () => {
    await delay(100);
    const readback = await headgate.client(t, 'postgres');
    try {
      assert.deepEqual((await readback.query('SHOW SPOOL')).rows, []);
    } finally {
      await readback.end();
    }
  });
  const tally = await ledger.tally(await headgate.client(t, 'postgres'), 'ledger');
  t.diagnostic(
    `${tally.sent} sent, ${tally.committed} answered 200, ${tally.kept} 202, ${tally.refused} refused, ${tally.unanswered} unanswered`,
  );
  const { lost, surplus, refused, unanswered } = tally;
  assert.deepEqual(
    { lost, surplus, refused, unanswered },
    { lost: [], surplus: [], refused: 0, unanswered: 0 },
    ledger.oddities.join('\n'),
  );
});
