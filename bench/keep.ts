/**
 * What senders notice while old rows of their table are removed: an open loop of requests to a table of ten million rows (BENCH_ROWS: fewer), while
 * Headgate removes all but a day of them (keep = '1 day'), in turns of half a minute with rests between, which serve as the comparison; and how large
 * the table becomes meanwhile.
 */
import { openLoop } from './open-loop.ts';
import type { Bench } from './report.ts';
import { stamp, table } from './report.ts';
import { startService } from './service.ts';
import type { LoadResult, Service } from './service.ts';
import { body, check, secret } from './signed.ts';
import { median } from './statistics.ts';

const all = Number(process.env['BENCH_ROWS'] ?? 10_000_000);
/** The table has one row for each second; this many stay. */
const kept = 86_400;
const perSecond = 2_000;
/** Several phases fit into one turn of removing. */
const phaseSecondsMax = 4;
const before = 8;
const minutesMax = 90;

interface Phase {
  readonly load: LoadResult;
  readonly removed: number;
  readonly mebibytes: number;
}

async function number(service: Service, sql: string): Promise<number> {
  const { rows } = await service.client.query<{ n: string }>(sql);
  return Number(rows[0]?.n);
}

const removedBy = (service: Service) =>
  number(service, 'select coalesce(sum(rows), 0) as n from headgate.kept');
const mebibytesOf = async (service: Service) =>
  (await number(service, `select pg_total_relation_size('aged') as n`)) / 2 ** 20;

async function phase(service: Service, seconds: number): Promise<Phase> {
  const removed = await removedBy(service);
  const load = await openLoop({ url: service.url('aged'), connections: 64, seconds, perSecond });
  return { load, removed: (await removedBy(service)) - removed, mebibytes: await mebibytesOf(service) };
}

async function fill({ client }: Service): Promise<void> {
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS '${secret}'`);
  await client.query(
    `CREATE TABLE aged (data JSONB) INCLUDE TIMESTAMP AS arrived WITH (connector = 'webhook') ${check}`,
  );
  await client.query(
    `INSERT INTO aged SELECT '${body}', now() - (${all} - g) * interval '1 second' FROM generate_series(1, ${all}) g`,
  );
  // What the documentation recommends for large tables with `keep`.
  await client.query(
    'CREATE INDEX ON aged (arrived); ALTER TABLE aged SET (autovacuum_vacuum_scale_factor = 0.02)',
  );
  for (const statement of ['VACUUM ANALYZE aged', 'CHECKPOINT']) await client.query(statement);
}

export const keep: Bench = {
  name: 'keep',
  apart: true,
  run: async ({ seconds: asked }) => {
    if (!(all > kept)) throw new Error(`BENCH_ROWS must be above ${kept}`);
    const seconds = Math.min(asked, phaseSecondsMax);
    const service = await startService();
    try {
      await fill(service);
      const began = await mebibytesOf(service);
      const phases: Phase[] = [];
      await phase(service, seconds);
      while (phases.length < before) phases.push(await phase(service, seconds));
      await service.client.query(`ALTER TABLE aged SET (keep = '1 day')`);
      const startedMs = performance.now();
      for (let left = all - kept; left > 0; left = all - kept - (await removedBy(service))) {
        if (performance.now() - startedMs > minutesMax * 60_000) throw new Error(`${left} rows are left`);
        const next = await phase(service, seconds);
        phases.push(next);
        console.error(
          `keep: ${left} left, ${next.removed} removed, p99 ${next.load.p99.toFixed(1)} ms, ${next.mebibytes.toFixed(0)} MiB`,
        );
      }
      return {
        text: textOf(phases, seconds, began, performance.now() - startedMs),
        reached: { kept: ratioOf(phases) },
      };
    } finally {
      await service.stop();
    }
  },
};

/** Phases in which nothing was removed, and those in which most of the time was spent removing; phases in between are dropped. */
function kinds(phases: readonly Phase[]): {
  readonly resting: readonly Phase[];
  readonly removing: readonly Phase[];
} {
  const most = Math.max(...phases.map(({ removed }) => removed));
  return {
    resting: phases.filter(({ removed }) => removed === 0),
    removing: phases.filter(({ removed }) => removed > most / 2),
  };
}

const p99Of = (phases: readonly Phase[]): number => median(phases.map(({ load }) => load.p99));

function ratioOf(phases: readonly Phase[]): number {
  const { resting, removing } = kinds(phases);
  return p99Of(removing) / p99Of(resting);
}

function textOf(phases: readonly Phase[], seconds: number, began: number, tookMs: number): string {
  const { resting, removing } = kinds(phases);
  const line = (what: string, some: readonly Phase[]) => [
    what,
    String(some.length),
    median(some.map(({ load }) => load.p50)).toFixed(1),
    p99Of(some).toFixed(1),
    (median(some.map(({ removed }) => removed)) / seconds).toFixed(0),
  ];
  const head = ['', 'phases', 'p50, ms', 'p99, ms', 'rows removed a second'];
  const removed = phases.reduce((sum, it) => sum + it.removed, 0);
  const sizes = phases.map(({ mebibytes }) => mebibytes);
  return [
    `${stamp()}; ${perSecond} requests a second, medians of phases of ${seconds} s.`,
    '',
    table(head, [line('nothing is removed', resting), line('rows are removed', removing)], 1),
    '',
    `${all} rows, ${removed} of them removed within ${(tookMs / 60_000).toFixed(0)} minutes; p99 **${ratioOf(phases).toFixed(2)}** times that without. ` +
      `Table and index: ${began.toFixed(0)} MiB before, ${Math.max(...sizes).toFixed(0)} MiB at most, ${(sizes.at(-1) ?? 0).toFixed(0)} MiB in the end.`,
  ].join('\n');
}
