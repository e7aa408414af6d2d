/** Webhooks while the database is unreachable: how many requests per second are kept, and how fast they become rows when it is back. */
import { randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { fillSpool } from '../test/support/filled-spool.ts';
import { MortalServer } from '../test/support/mortal-server.ts';
import { treeUsage } from './processes.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { figure, measure, startIn, startService } from './service.ts';
import type { Service } from './service.ts';
import { body, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const connections = 256;

/** Handed over at one time. */
const requests = 300_000;

/** The tables that they are handed over to, by description. */
const drained = {
  'one JSONB column': 'plain (data JSONB)',
  'three columns': 'typed (action TEXT, number INT, repository JSONB)',
  'the same with a key, upserted': 'keyed (number INT PRIMARY KEY, action TEXT, repository JSONB)',
} as const;

const flagsFor = ({ databaseUrl }: MortalServer) => [
  `--database-url=${databaseUrl}`,
  '--spool-bytes=4294967296',
];

async function load(service: Service, name: string, seconds: number) {
  const job = { url: service.url(name), connections, seconds, headers: signedHeaders(body), bodies: [body] };
  return measure(job, service.pid, process.pid);
}

interface Drained {
  readonly perSecond: number;
  readonly nodeCpuUs: number;
  readonly engineCpuUs: number;
}

/** Hands over what a killed Headgate has left, with a new one. */
async function drain(server: MortalServer, dataDir: string, name: string): Promise<Drained> {
  const client = new Client({ host: server.folder, user: 'root', database: 'postgres' });
  await client.connect();
  await client.query(`truncate ${name}`);
  const bytes = (n: number) => Buffer.from(body.replace('4711', String(n)));
  const more = (n: number) => n < requests;
  await fillSpool({ dataDir, table: name, client, together: 2_048, body: bytes, more });
  await client.query('checkpoint');
  await client.end();
  const service = await startIn(dataDir, { flags: flagsFor(server), database: 'postgres' });
  try {
    const look = async () => ({
      arrived: await figure(service, 'headgate_spool_drained_total'),
      at: performance.now(),
      node: treeUsage(service.pid).program.cpuSeconds,
      engine: treeUsage(process.pid).engine.cpuSeconds,
    });
    let first = await look();
    let last = first;
    while (last.arrived < requests) {
      await delay(20);
      last = await look();
      if (first.arrived === 0) first = last;
    }
    const each = (seconds: number) => (seconds * 1e6) / (last.arrived - first.arrived);
    return {
      perSecond: ((last.arrived - first.arrived) / (last.at - first.at)) * 1_000,
      nodeCpuUs: each(last.node - first.node),
      engineCpuUs: each(last.engine - first.engine),
    };
  } finally {
    await service.stop();
  }
}

async function drains({ rounds }: Effort, server: MortalServer, keyFile: string): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-spool-'));
  await copyFile(keyFile, join(dataDir, 'master.key'));
  try {
    const service = await startIn(dataDir, { flags: flagsFor(server), database: 'postgres' });
    for (const columns of Object.values(drained))
      await service.client.query(`CREATE TABLE ${columns} WITH (connector = 'webhook')`);
    await service.stop();
    const lines: (string | number)[][] = [];
    for (const [what, columns] of Object.entries(drained)) {
      const runs: Drained[] = [];
      for (let round = 0; round < rounds; round++)
        runs.push(await drain(server, dataDir, columns.slice(0, columns.indexOf(' '))));
      const of = (pick: (run: Drained) => number) => median(runs.map(pick)).toFixed(0);
      const speed = spread(
        runs.map(({ perSecond }) => perSecond),
        0,
      );
      lines.push([what, speed, of((run) => run.nodeCpuUs), of((run) => run.engineCpuUs)]);
      console.error(lines.at(-1)?.join('  '));
    }
    const head = [
      'a table of',
      'handed over a second',
      'CPU of Headgate, its start included, µs',
      'of the engine, µs',
    ];
    return `${requests} requests that a killed Headgate has left:\n\n${table(head, lines, 1)}`;
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function fallback(
  { rounds, seconds }: Effort,
  service: Service,
  server: MortalServer,
): Promise<string> {
  const turns = await inTurns(rounds, 'fallback', {
    normal: () => load(service, 'kept', seconds),
    kept: async () => {
      await server.kill();
      try {
        // The first requests wait for the database.
        await load(service, 'kept', 1);
        return await load(service, 'kept', seconds);
      } finally {
        await server.start();
        while ((await figure(service, 'headgate_spool_bytes')) > 2 * 64 * 2 ** 20) await delay(50);
        while ((await figure(service, 'headgate_ready')) !== 1) await delay(50);
      }
    },
  });
  const of = (pick: (turn: (typeof turns)[number]) => number, digits = 0) =>
    median(turns.map(pick)).toFixed(digits);
  const ratio = spread(turns.map(({ normal, kept }) => kept.perSecond / normal.perSecond));
  return (
    `With the database away ${of((turn) => turn.kept.perSecond)} requests a second are kept, ` +
    `${of((turn) => turn.kept.nodeCpuUs)} µs of CPU each; with it there ${of((turn) => turn.normal.perSecond)} are committed, ` +
    `${of((turn) => turn.normal.nodeCpuUs)} + ${of((turn) => turn.normal.engineCpuUs)} µs: ${ratio}.`
  );
}

export const spool: Bench = {
  name: 'spool',
  run: async (effort) => {
    const server = await MortalServer.make(['max_wal_size=4GB', 'shared_buffers=1GB']);
    try {
      // All of them read what the others have sealed.
      const keyFile = join(server.folder, 'master.key');
      await writeFile(keyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
      const flags = [...flagsFor(server), `--master-key-file=${keyFile}`, '--spool=fallback'];
      const service = await startService({ flags, database: 'postgres' });
      // Its connection ends with the database.
      service.client.on('error', () => undefined);
      try {
        await createSigned(service.client, 'kept');
        const kept = await fallback(effort, service, server);
        return [
          `${stamp()}; medians of ${effort.rounds} rounds.`,
          kept,
          await drains(effort, server, keyFile),
        ].join('\n\n');
      } finally {
        await service.stop();
      }
    } finally {
      await server.remove();
    }
  },
};
