/**
 * The engine and Headgate killed, held and started in a random order under load, with a table that spools and has no key:
 * what the suite runs a few times and the long run many times.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { onEnd } from './cleanup.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { Ledger } from './ledger.ts';
import type { Tally } from './ledger.ts';
import { MortalServer } from './mortal-server.ts';
import { within } from './within.ts';

const secret = 'spool test';

export interface SpoolTally extends Tally {
  readonly engineKills: number;
  readonly headgateKills: number;
  readonly holds: number;
}

export async function spoolCycles(t: TestContext, rounds: number, random: () => number): Promise<SpoolTally> {
  const server = await MortalServer.start(t);
  const dataDir = await temporaryFolder(t);
  const env = { HEADGATE_DATABASE_URL: server.databaseUrl };
  let headgate: Headgate = await startHeadgate(t, { dataDir, env });
  const sql = await headgate.client(t, 'postgres');
  await sql.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook', spool = 'fallback') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const target = () => `${headgate.webhookUrl}/postgres/public/ledger`;
  let url: string | null = target();
  while ((await ledger.send(url)) !== 200);
  const load = ledger.run(() => url, 16);
  const counts = { engineKills: 0, headgateKills: 0, holds: 0 };
  for (let round = 0; round < rounds; round++) {
    // The moment of the crash is part of the experiment, not a wait for something.
    await delay(random() * 400);
    const dice = random();
    if (!server.isRunning && dice < 0.5) await server.start();
    else if (dice < 0.4) {
      await server.kill();
      counts.engineKills += 1;
    } else if (dice < 0.55) {
      server.signal('SIGSTOP');
      await delay(random() < 0.1 ? 7_000 : random() * 500);
      server.signal('SIGCONT');
      counts.holds += 1;
    } else {
      url = null;
      await headgate.signal('SIGKILL');
      headgate = await (await spawnHeadgate(t, { dataDir, env })).ready();
      url = target();
      counts.headgateKills += 1;
    }
  }
  await server.start();
  await within(60_000, async () => assert.equal(await ledger.send(target()), 200));
  ledger.stop();
  await load;
  await within(60_000, async () => {
    await delay(50);
    assert.equal(segments(join(dataDir, 'spool')), 1);
  });
  const tally = await ledger.tally(await server.connect(t), 'ledger');
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
  return { ...tally, ...counts };
}

/** One is made ahead; any other holds something. */
function segments(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.seg'))
    .length;
}
