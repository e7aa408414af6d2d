/**
 * Tables of root beside tables of a role that is no superuser, with the same definitions, in one program and one run: what it costs that rows
 * are stored in the session of another role. BENCH_TABLES sets the larger number of tables.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { runJson, script, treeUsage } from './processes.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { figure, measure, measureSocket, startService } from './service.ts';
import type { Job, LoadResult, Service } from './service.ts';
import { median } from './statistics.ts';

const connections = 16;
/** Statements in one message, while tables are made. */
const together = 25;
const many = Number(process.env['BENCH_TABLES'] ?? 5_000);
const thousands = many.toLocaleString('en-US');
/** The schemas of the two owners, and their roles. */
const schemas = { root: 'mine', owner: 'app' } as const;
type Whose = keyof typeof schemas;

const columns = 'id BIGINT, name TEXT, amount NUMERIC, extra JSONB';
const itemOf = (id: number | string) =>
  `{"id":${id},"name":"customer","amount":12.25,"extra":{"action":"opened"}}`;
/** Each request has an id of its own. */
const numbered = itemOf('{n}');
const items = Array.from({ length: 10_000 }, (_, i) => itemOf(i));

interface Made {
  readonly perSecond: number;
  readonly engineCpuUs: number;
}

interface Case {
  readonly name: string;
  /** The definition of the table, or of each of several. */
  readonly columns: string;
  readonly options?: string;
  readonly count?: number;
  /** Each table belongs to a role of its own. */
  readonly apart?: true;
  readonly trigger?: true;
  readonly by?: 'socket' | 'spool';
}

const cases: readonly Case[] = [
  { name: 'one plain table', columns: 'data JSONB' },
  { name: `${thousands} plain tables`, columns: 'data JSONB', count: many },
  { name: `${thousands} owners of a plain table each`, columns: 'data JSONB', count: many, apart: true },
  { name: 'keyed, upserted', columns: `${columns}, PRIMARY KEY (id)` },
  { name: '`dedupe`', columns: 'data JSONB', options: `dedupe = '$.id'` },
  { name: 'handed over by the spool', columns: 'data JSONB', options: `spool = 'fallback'`, by: 'spool' },
  { name: 'WebSocket, batches of 100, rows/s', columns, by: 'socket' },
  { name: 'with a trigger', columns, trigger: true },
];

const tableOf = (place: number, i = 0): string => `t${place}_${i}`;

/** The tables of one case: made by root, and given to their owners. */
async function create(client: Client, it: Case, place: number): Promise<void> {
  const options = ["connector = 'webhook'", ...(it.options === undefined ? [] : [it.options])].join(', ');
  for (const [whose, schema] of Object.entries(schemas)) {
    for (let from = 0; from < (it.count ?? 1); from += together) {
      const names = Array.from({ length: Math.min(together, (it.count ?? 1) - from) }, (_, i) => from + i);
      const made = names.map((i) => `CREATE TABLE ${schema}.${tableOf(place, i)} (${it.columns}) WITH (${options})`);
      await client.query(made.join('; '));
      const given = names.flatMap((i) => {
        const name = `${schema}.${tableOf(place, i)}`;
        const role = it.apart === true ? `owner_${i}` : schemas.owner;
        const trigger = `CREATE TRIGGER named BEFORE INSERT ON ${name} FOR EACH ROW EXECUTE FUNCTION named()`;
        return [
          ...(it.trigger === true ? [trigger] : []),
          ...(whose === 'owner' && it.apart === true ? [`CREATE ROLE ${role}`] : []),
          ...(whose === 'owner' ? [`ALTER TABLE ${name} OWNER TO ${role}`] : []),
        ];
      });
      if (given.length > 0) await client.query(given.join('; '));
    }
  }
} // prettier-ignore

/** The table is locked until requests that wait for it go to the disk, and then for so long; what is measured is how they become rows. */
async function handOver(service: Service, name: string, job: Job): Promise<Made> {
  const { client } = service;
  await client.query(`BEGIN; LOCK TABLE ${name}`);
  // The first requests may be refused: they waited at the lock.
  await runJson<LoadResult>(script('./load.js'), { ...job, seconds: job.seconds + 6 });
  const look = async () => ({
    waiting: await figure(service, 'headgate_spool_requests'),
    at: performance.now(),
    engine: treeUsage(service.pid).engine.cpuSeconds,
  });
  const first = await look();
  await client.query('COMMIT');
  let last = first;
  for (; last.waiting > 0; last = await look()) await delay(20);
  return {
    perSecond: (first.waiting / (last.at - first.at)) * 1_000,
    engineCpuUs: ((last.engine - first.engine) * 1e6) / first.waiting,
  };
} // prettier-ignore

async function run(service: Service, it: Case, place: number, whose: Whose, seconds: number): Promise<Made> {
  const schema = schemas[whose];
  const names = Array.from({ length: it.count ?? 1 }, (_, i) => tableOf(place, i));
  // What the other one wrote is on disk, and neither grows.
  await service.client.query(
    it.count === undefined ? `TRUNCATE ${schema}.${tableOf(place)}; CHECKPOINT` : 'CHECKPOINT',
  );
  if (it.by === 'socket') return measureSocket(service, `${schema}/${tableOf(place)}`, items, seconds);
  const job: Job = {
    url: `http://127.0.0.1:${service.ports.listen.port}/webhook/dev/${schema}/${tableOf(place)}`,
    connections,
    // Each table is written to several times.
    seconds: it.count === many ? 4 * seconds : seconds,
    headers: { 'content-type': 'application/json' },
    bodies: [numbered],
    ...(it.count !== undefined && { paths: names.map((name) => `/webhook/dev/${schema}/${name}`) }),
  };
  if (it.by === 'spool') return handOver(service, `${schema}.${tableOf(place)}`, job);
  return measure(job, service.pid);
}

/** BENCH_OWNERS restricts it to the cases whose names match. */
const only = new RegExp(process.env['BENCH_OWNERS'] ?? '');

export const owners: Bench = {
  name: 'owners',
  run: async ({ rounds, seconds }) => {
    const service = await startService({
      engineSettings: ['autovacuum = off'],
      flags: ['--spool-bytes=4294967296'],
    });
    try {
      const { client } = service;
      await client.query(`CREATE ROLE ${schemas.owner}; CREATE SCHEMA ${schemas.root}; CREATE SCHEMA ${schemas.owner} AUTHORIZATION ${schemas.owner};
        CREATE FUNCTION named() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$`);
      const rows: string[][] = [];
      for (const [place, it] of cases.entries()) {
        if (!only.test(it.name)) continue;
        await create(client, it, place);
        const turns = await inTurns(rounds, it.name, {
          root: () => run(service, it, place, 'root', seconds),
          owner: () => run(service, it, place, 'owner', seconds),
        });
        const of = (whose: Whose, pick: (made: Made) => number, digits: number) =>
          median(turns.map((turn) => pick(turn[whose]))).toFixed(digits);
        const both = (pick: (made: Made) => number, digits: number) =>
          `${of('root', pick, digits)} / ${of('owner', pick, digits)}`;
        rows.push([
          it.name,
          both((made) => made.perSecond, 0),
          spread(turns.map(({ root, owner }) => owner.perSecond / root.perSecond)),
          both((made) => made.engineCpuUs, 1),
          spread(turns.map(({ root, owner }) => owner.engineCpuUs / root.engineCpuUs)),
        ]);
        console.error(rows.at(-1)?.join('  '));
      }
      const head = [
        'table',
        'requests/s: root / a role that is no superuser',
        'ratio (min–max)',
        'engine CPU a request, µs',
        'ratio (min–max)',
      ];
      return [
        `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. ${connections} connections, bodies of ${itemOf(12_345).length} bytes.`,
        '',
        table(head, rows, 1),
      ].join('\n');
    } finally {
      await service.stop();
    }
  },
};
