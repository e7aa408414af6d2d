/** A primary that repeatedly dies under load, and a synchronous standby that takes over. */
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { onEnd } from './cleanup.ts';
import { startHeadgate } from './headgate.ts';
import { Ledger } from './ledger.ts';
import type { Tally } from './ledger.ts';
import { Replicas } from './replicas.ts';

const secret = 'failover test';

export interface Failovers {
  readonly tally: Tally;
  /** From the order to take over to the first request answered 200, for each failover … */
  readonly backMs: readonly number[];
  /** … and from when the standby reports that it has. */
  readonly afterMs: readonly number[];
}

/** `random` gives the time of each death, 0 to 1. */
export async function failovers(
  t: TestContext,
  bin: string,
  count: number,
  random: () => number,
): Promise<Failovers> {
  const replicas = await Replicas.start(bin);
  onEnd(t, 'servers', () => replicas.close());
  const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: replicas.databaseUrl } });
  const client = await headgate.client(t, 'postgres');
  await client.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const load = ledger.run(() => `${headgate.webhookUrl}/postgres/public/ledger`, 16);
  const until = async (committed: number) => {
    while (ledger.committed < committed) await delay(5);
  };
  const backMs: number[] = [];
  const afterMs: number[] = [];
  for (let i = 0; i < count; i++) {
    await until(ledger.committed + 200);
    // The time of the death is part of the experiment, not a wait for something.
    await delay(random() * 150);
    await replicas.kill();
    const before = ledger.committed;
    const started = performance.now();
    await replicas.promote();
    const promoted = performance.now();
    await until(before + 1);
    backMs.push(performance.now() - started);
    afterMs.push(performance.now() - promoted);
    await replicas.follow();
  }
  await until(ledger.committed + 200);
  ledger.stop();
  await load;
  const tally = await ledger.tally(await headgate.client(t, 'postgres'), 'ledger');
  return { tally, backMs, afterMs };
}
