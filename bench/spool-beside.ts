/**
 * What other tables notice during a hand-over: an open loop of requests to one table, while what a killed Headgate has left for
 * another table goes into the database, and while a lock holds it back. A part of the benchmark of the spool.
 */
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { fillSpool } from '../test/support/filled-spool.ts';
import type { MortalServer } from '../test/support/mortal-server.ts';
import { openLoop } from './open-loop.ts';
import { spread } from './report.ts';
import type { Effort } from './report.ts';
import { figure, startIn } from './service.ts';
import type { LoadResult, Service, ServiceOptions } from './service.ts';
import { body, createSigned } from './signed.ts';
import { median } from './statistics.ts';

/** More than can be handed over during the measurement. */
const requests = 3_000_000;
const perSecond = 5_000;

interface Beside {
  readonly during: LoadResult;
  readonly without: LoadResult;
  /** Requests handed over per second meanwhile. */
  readonly arrived: number;
}

function load(service: Service, seconds: number): Promise<LoadResult> {
  return openLoop({ url: service.url('beside'), connections: 64, seconds, perSecond });
}

async function round(server: MortalServer, dataDir: string, options: ServiceOptions, seconds: number) {
  const client = new Client({ host: server.folder, user: 'root', database: 'postgres' });
  await client.connect();
  await client.query('truncate away, beside');
  const more = (n: number) => n < requests;
  await fillSpool({ dataDir, table: 'away', client, together: 2_048, body: () => Buffer.from(body), more });
  await client.query('checkpoint; begin; lock table away in share mode');
  const service = await startIn(dataDir, options);
  try {
    const arrived = () => figure(service, 'headgate_spool_drained_total');
    await load(service, seconds);
    const without = await load(service, seconds);
    await client.query('commit');
    while ((await arrived()) === 0) await delay(10);
    const before = await arrived();
    const during = await load(service, seconds);
    const between = await arrived();
    if (between >= requests) throw new Error('all of it had arrived before the end of the measurement');
    return { during, without, arrived: (between - before) / (seconds + 1) } satisfies Beside;
  } finally {
    await client.end();
    await service.stop();
    await rm(join(dataDir, 'spool'), { recursive: true, force: true });
  }
}

export async function beside(
  { rounds, seconds }: Effort,
  server: MortalServer,
  keyFile: string,
  options: ServiceOptions,
): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-spool-'));
  await copyFile(keyFile, join(dataDir, 'master.key'));
  try {
    const service = await startIn(dataDir, options);
    await service.client.query(`CREATE TABLE away (data JSONB) WITH (connector = 'webhook')`);
    await createSigned(service.client, 'beside');
    await service.stop();
    const all: Beside[] = [];
    for (let n = 0; n < rounds; n++) {
      const one = await round(server, dataDir, options, seconds);
      all.push(one);
      console.error(
        `beside: p99 ${one.during.p99} and, without, ${one.without.p99} ms; ${one.arrived.toFixed(0)} handed over a second`,
      );
    }
    const of = (pick: (one: Beside) => number, digits = 1) => median(all.map(pick)).toFixed(digits);
    const ratio = spread(all.map(({ during, without }) => during.p99 / without.p99));
    return (
      `Another table, ${perSecond} requests a second: p50 ${of((it) => it.during.p50)} and p99 ${of((it) => it.during.p99)} ms while ` +
      `${of((it) => it.arrived, 0)} a second are handed over, p50 ${of((it) => it.without.p50)} and p99 ${of((it) => it.without.p99)} ms ` +
      `while nothing is: ${ratio} times the p99.`
    );
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}
