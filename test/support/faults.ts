/**
 * Faults under load, one after the other, with a ledger of every attempt. Returns the time from the end of each fault
 * until a request was answered 200 again; the ledger shows whether anything was lost or stored twice.
 */
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { childrenOf } from '../../src/engine/server-processes.ts';
import { onEnd } from './cleanup.ts';
import { postmasterPid } from './engine-process.ts';
import { FaultyProxy } from './faulty-proxy.ts';
import { startHeadgate } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { Ledger } from './ledger.ts';
import type { Tally } from './ledger.ts';
import { sampleOf } from './sample.ts';
import { startServer } from './server.ts';
import { signalAll } from './signal-all.ts';
import { within } from './within.ts';

export interface FaultRun {
  /** By kind, the ms from the end of each fault to the first 200 of a request that was sent after it. */
  readonly recoveredMs: ReadonlyMap<string, readonly number[]>;
  readonly tally: Tally;
  /** Answers that were neither 200 nor 503. */
  readonly odd: readonly number[];
}

const secret = 'fault test';
const senders = 8;

/** Far above what is measured (docs/reliability.md): a test is not a stopwatch. */
export const recoveredMsMax = 30_000;

class Load {
  readonly recoveredMs = new Map<string, number[]>();
  readonly headgate: Headgate;
  readonly ledger = new Ledger(secret);
  readonly client: Client;
  readonly #running: Promise<void>;
  readonly #url: string;

  static async start(t: TestContext, headgate: Headgate, database: string): Promise<Load> {
    const client = await headgate.client(t, database);
    await client.query(`
      CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
      CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
        secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
    const load = new Load(headgate, database, client);
    onEnd(t, 'ledger', () => load.ledger.close());
    await load.ledger.accepted(load.#url);
    return load;
  }

  constructor(headgate: Headgate, database: string, client: Client) {
    this.headgate = headgate;
    this.client = client;
    this.#url = `${headgate.webhookUrl}/${database}/public/ledger`;
    this.#running = this.ledger.run(() => this.#url, senders);
  }

  /**
   * Breaks something, and waits until it works again. `fault` resolves once the fault is repaired, with the time from
   * which to count if that is earlier.
   */
  async meets(kind: string, fault: () => Promise<number | void> | void): Promise<void> {
    const before = this.ledger.committed;
    while (this.ledger.committed < before + 50) await delay(2);
    const since = (await fault()) ?? performance.now();
    await this.ledger.accepted(this.#url);
    const times = this.recoveredMs.get(kind) ?? [];
    times.push(performance.now() - since);
    this.recoveredMs.set(kind, times);
  }

  /** Kills a process; the result is the longest gap between two 200s that follows, expressed as a start time. */
  async kill(pid: number): Promise<number> {
    const killed = performance.now();
    process.kill(pid, 'SIGKILL');
    let last = { committed: this.ledger.committed, at: killed };
    let longestMs = 0;
    // Requests in hand may still be answered, so the effect may come later.
    while (last.at < killed + 1_500) {
      await delay(2);
      const { committed } = this.ledger;
      if (committed === last.committed) continue;
      longestMs = Math.max(longestMs, performance.now() - last.at);
      last = { committed, at: performance.now() };
    }
    return performance.now() - longestMs;
  }

  /** Resolves once a request was answered 503. */
  async refused(): Promise<void> {
    const before = this.ledger.refused;
    while (this.ledger.refused === before) await delay(2);
  }

  async end(t: TestContext, database: string): Promise<FaultRun> {
    this.ledger.stop();
    await this.#running;
    const tally = await this.ledger.tally(await this.#connected(t, database), 'ledger');
    return { recoveredMs: this.recoveredMs, tally, odd: this.ledger.odd };
  }

  /** The SQL port reports the last fault until the engine has been queried again; webhooks may be stored before that. */
  #connected(t: TestContext, database: string): Promise<Client> {
    return within(
      recoveredMsMax,
      () => this.headgate.client(t, database),
      (error) => (error as { code?: string }).code === '57P03',
    );
  }
}

/** Faults of the embedded engine and its disk: `full` fills the disk, and returns a function that frees it. */
export async function engineFaults(
  t: TestContext,
  rounds: number,
  dataDir: string,
  fill: (() => Promise<() => Promise<void>>) | null,
): Promise<FaultRun> {
  const headgate = await startHeadgate(t, { dataDir });
  const load = await Load.start(t, headgate, 'dev');
  for (let round = 0; round < rounds; round++) {
    await load.meets('backend killed', async () => load.kill(await backendOf(await postmasterPid(dataDir))));
    await load.meets('server killed', async () => load.kill(await postmasterPid(dataDir)));
    await load.meets('engine stopped and continued', async () => {
      const postmaster = await postmasterPid(dataDir);
      const pids = [postmaster, ...(await childrenOf(postmaster))];
      signalAll(pids, 'SIGSTOP');
      await load.refused();
      signalAll(pids, 'SIGCONT');
    });
    if (fill !== null)
      await load.meets('disk full, and room again', async () => {
        const free = await fill();
        await load.refused();
        await free();
      });
  }
  return load.end(t, 'dev');
}

/** Faults of the network between Headgate and a remote PostgreSQL. */
export async function networkFaults(t: TestContext, rounds: number): Promise<FaultRun> {
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const proxy = await FaultyProxy.open({ kind: 'unix', path: server.socket }, 'headgate commit');
  onEnd(t, 'proxy', () => proxy.close());
  const headgate = await startHeadgate(t, {
    args: [`--database-url=postgresql://root@127.0.0.1:${proxy.port}/postgres?sslmode=disable`],
    env: { HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${proxy.port}/postgres?sslmode=disable` },
  });
  const load = await Load.start(t, headgate, 'postgres');
  const cut = async () => {
    const before = proxy.cuts;
    while (proxy.cuts === before) await delay(2);
  };
  for (let round = 0; round < rounds; round++) {
    for (const message of sampleOf([0, 1, 2, 3, 4, 5, 6, 7], 2)) {
      for (const side of ['server', 'client'] as const)
        await load.meets(`reset at a message of the ${side}`, () => {
          proxy.cutAfter(side, message + 8 * round);
          return cut();
        });
    }
    await load.meets('all connections reset', () => proxy.reset());
    await load.meets('stalled and resumed', async () => {
      proxy.stall();
      await load.refused();
      proxy.resume();
    });
    proxy.latencyMs = 5;
    proxy.pieceBytes = 100;
    await load.meets('slow, in pieces', () => {});
    proxy.latencyMs = 0;
    proxy.pieceBytes = null;
  }
  return load.end(t, 'postgres');
}

/** A process that serves a client: one that commits, because there are no others. */
async function backendOf(postmaster: number): Promise<number> {
  const pid = (await childrenOf(postmaster)).find((it) => /\broot dev \[local\]/.test(titleOf(it)));
  if (pid === undefined) throw new Error('no backend');
  return pid;
}

function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    // It has ended.
    return '';
  }
}

export function describe({ recoveredMs, tally }: FaultRun): string {
  const lines = [...recoveredMs].map(
    ([kind, ms]) => `${kind}: ${ms.length} times, at most ${Math.max(...ms).toFixed(0)} ms`,
  );
  const { sent, committed, refused, unanswered } = tally;
  return [
    ...lines,
    `${sent} sent, ${committed} committed, ${refused} refused, ${unanswered} unanswered`,
  ].join('; ');
}
