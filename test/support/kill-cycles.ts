/** Headgate repeatedly killed under load: the suite runs a few cycles, the long run many. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { onEnd } from './cleanup.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { Ledger } from './ledger.ts';
import type { Tally } from './ledger.ts';

const secret = 'crash test';

/** `random` gives the time of each kill, 0 to 1; a failing run prints its seed. */
export async function killCycles(t: TestContext, cycles: number, random: () => number): Promise<Tally> {
  const dataDir = await temporaryFolder(t);
  let headgate: Headgate = await startHeadgate(t, { dataDir });
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  let url: string | null = null;
  const target = () => `${headgate.webhookUrl}/dev/public/ledger`;
  url = target();
  const load = ledger.run(() => url, 16);
  const restartsMs: number[] = [];
  for (let cycle = 0; cycle < cycles; cycle++) {
    const before = ledger.committed;
    while (ledger.committed < before + 50) await delay(5);
    // The time of the crash is part of the experiment, not a wait for something.
    await delay(random() * 150);
    url = null;
    await headgate.signal('SIGKILL');
    // Restarted at once: the engine of the killed one may still be shutting down.
    const started = performance.now();
    headgate = await (await spawnHeadgate(t, { dataDir })).ready();
    url = target();
    await ledger.accepted(url);
    restartsMs.push(performance.now() - started);
  }
  const sorted = restartsMs.toSorted((a, b) => a - b);
  const [half = 0, most = 0] = [sorted[sorted.length >> 1], sorted.at(-1)];
  t.diagnostic(
    `first 200 after ${cycles} starts: median ${half.toFixed(0)} ms, at most ${most.toFixed(0)} ms`,
  );
  ledger.stop();
  await load;
  const tally = await ledger.tally(await headgate.client(t), 'ledger');
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
  return tally;
}
