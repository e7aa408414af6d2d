/**
 * The engine and Headgate killed, paused and started in random order under load, with a table that spools and has no key:
 * the suite runs a few cycles, the long run many.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { onEnd } from './cleanup.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { Ledger, answerMsMax } from './ledger.ts';
import { listenerProcesses } from './listeners.ts';
import type { Tally } from './ledger.ts';
import { MortalServer } from './mortal-server.ts';
import { isLong } from './sample.ts';
import { within } from './within.ts';

const secret = 'spool test';

export interface SpoolTally extends Tally {
  readonly engineKills: number;
  readonly headgateKills: number;
  readonly holds: number;
  readonly listenerKills: number;
  /** Requests of one sender that were sent one after the other, answered 200 or 202, and stored in another order. */
  readonly overtaken: readonly number[];
}

export interface SpoolCyclesOptions {
  readonly rounds: number;
  readonly random: () => number;
  readonly listeners: number;
}

export async function spoolCycles(
  t: TestContext,
  { rounds, random, listeners }: SpoolCyclesOptions,
): Promise<SpoolTally> {
  const server = await MortalServer.start(t);
  const dataDir = await temporaryFolder(t);
  const env = { HEADGATE_DATABASE_URL: server.databaseUrl, HEADGATE_LISTENERS: String(listeners) };
  let headgate: Headgate = await startHeadgate(t, { dataDir, env });
  const sql = await headgate.client(t, 'postgres');
  await sql.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook', spool = 'fallback') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'));
    CREATE TABLE latest (id INT PRIMARY KEY, n INT) WITH (connector = 'webhook', spool = 'fallback')`);
  const beside = await server.connect(t);
  await beside.query(`
    CREATE TABLE went_back (n INT);
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF new.n < old.n THEN INSERT INTO public.went_back VALUES (new.n); END IF; RETURN new; END $$;
    CREATE TRIGGER watch BEFORE UPDATE ON latest FOR EACH ROW EXECUTE FUNCTION watch()`);
  await beside.end();
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const target = () => `${headgate.webhookUrl}/postgres/public/ledger`;
  let url: string | null = target();
  await ledger.accepted(url);
  const load = ledger.run(() => url, 16);
  const inOrder = new OrderedSender();
  onEnd(t, 'ordered sender', () => inOrder.stop());
  const ordered = inOrder.run(() => url?.replace(/ledger$/, 'latest') ?? null);
  const counts = { engineKills: 0, headgateKills: 0, holds: 0, listenerKills: 0 };
  for (let round = 0; round < rounds; round++) {
    // The time of the crash is part of the experiment, not a wait for something.
    await delay(random() * 400);
    const dice = random();
    if (!server.isRunning && dice < 0.5) await server.start();
    else if (listeners > 1 && random() < 0.4) {
      // A process that is being started may already have ended.
      const all = listenerProcesses(headgate.child.pid ?? 0);
      const victim = all[Math.floor(random() * all.length)];
      if (victim !== undefined) process.kill(victim.pid, 'SIGKILL');
      counts.listenerKills += 1;
    } else if (dice < 0.4) {
      await server.kill();
      counts.engineKills += 1;
    } else if (dice < 0.55) {
      await server.signal('SIGSTOP');
      await delay(random() < 0.1 ? 7_000 : random() * 500);
      await server.signal('SIGCONT');
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
  inOrder.stop();
  await Promise.all([load, ordered]);
  await within(60_000, async () => {
    await delay(50);
    assert.equal(segments(join(dataDir, 'spool')), 1, headgate.stderr.slice(-4_000));
  });
  const client = await server.connect(t);
  const tally = await ledger.tally(client, 'ledger');
  const { rows: back } = await client.query<{ n: number }>('select n from went_back');
  const overtaken = back.map(({ n }) => n).filter((n) => inOrder.taken.has(n));
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
  return { ...tally, ...counts, overtaken };
}

/** Sends one request after the other, each on a new connection, so that any process may receive it. */
class OrderedSender {
  /** Requests answered 200 or 202. */
  readonly taken = new Set<number>();
  #stopped = false;

  async run(url: () => string | null): Promise<void> {
    for (let n = 1; !this.#stopped; n++) {
      const to = url();
      if (to !== null && (await this.#send(to, n)) !== null) this.taken.add(n);
      if (to === null || !isLong) await delay(3);
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  async #send(url: string, n: number): Promise<number | null> {
    const body = JSON.stringify({ id: 1, n });
    return new Promise((resolve) => {
      const sent = request(url, { method: 'POST', agent: false, timeout: answerMsMax }, (response) => {
        const { statusCode = 0 } = response;
        response.resume();
        response.on('close', () => resolve(statusCode < 300 ? statusCode : null));
      });
      sent.on('error', () => resolve(null));
      sent.on('timeout', () => sent.destroy());
      sent.end(body);
    });
  }
}

/** One file is created ahead; any other contains something. */
function segments(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.seg'))
    .length;
}

export function told(tally: SpoolTally, seed: number): string {
  const { sent, committed, kept, refused, unanswered } = tally;
  const { engineKills, headgateKills, listenerKills, holds } = tally;
  return (
    `seed ${seed}: ${sent} sent, ${committed} answered 200, ${kept} 202, ${refused} refused, ${unanswered} unanswered; ` +
    `${engineKills} kills of the engine, ${headgateKills} of Headgate, ${listenerKills} of a listener process, ${holds} holds`
  );
}

export function assertExactlyOnce({ lost, surplus, overtaken, committed }: SpoolTally, seed: number): void {
  assert.deepEqual({ lost, surplus, overtaken }, { lost: [], surplus: [], overtaken: [] }, `seed ${seed}`);
  assert(committed > 0);
}
