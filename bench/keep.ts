/**
 * What senders notice while old rows of their table are removed: an open loop of requests to a table of ten million rows, first with nothing to remove,
 * then while Headgate removes nine tenths of them (keep = '1 day'); and how large the table becomes meanwhile.
 */
import { openLoop } from './open-loop.ts';
import type { Bench } from './report.ts';
import { stamp, table } from './report.ts';
import { startService } from './service.ts';
import type { LoadResult, Service } from './service.ts';
import { body, check, secret } from './signed.ts';

const rows = 10_000_000;
const perSecond = 3_000;

interface Phase {
  readonly load: LoadResult;
  readonly removed: number;
  readonly mebibytes: number;
}

async function number(service: Service, sql: string): Promise<number> {
  const { rows: answered } = await service.client.query<{ n: string }>(sql);
  return Number(answered[0]?.n);
}

async function phase(service: Service, seconds: number): Promise<Phase> {
  const removed = () => number(service, 'select coalesce(sum(rows), 0) as n from headgate.kept');
  const before = await removed();
  const load = await openLoop({ url: service.url('aged'), connections: 64, seconds, perSecond });
  const bytes = await number(service, `select pg_table_size('aged') as n`);
  return { load, removed: (await removed()) - before, mebibytes: bytes / 2 ** 20 };
}

export const keep: Bench = {
  name: 'keep',
  apart: true,
  run: async ({ seconds }) => {
    const service = await startService();
    try {
      const { client } = service;
      await client.query(`CREATE SECRET s WITH (backend = 'meta') AS '${secret}'`);
      await client.query(
        `CREATE TABLE aged (data JSONB) INCLUDE TIMESTAMP AS arrived WITH (connector = 'webhook') ${check}`,
      );
      await client.query(
        `INSERT INTO aged SELECT '${body}', now() - g * interval '1 second' FROM generate_series(1, ${rows}) g`,
      );
      await client.query('CREATE INDEX ON aged (arrived); VACUUM ANALYZE aged; CHECKPOINT');
      await phase(service, seconds);
      const still = await phase(service, seconds);
      await client.query(`ALTER TABLE aged SET (keep = '1 day')`);
      const phases: Phase[] = [];
      const old = () =>
        number(service, `select count(*) as n from aged where arrived < now() - interval '1 day'`);
      const ends = performance.now() + 20 * 60_000;
      for (let left = await old(); left > 0 && performance.now() < ends; left = await old()) {
        const next = await phase(service, seconds);
        console.error(
          `keep: ${left} left, ${next.removed} removed, p99 ${next.load.p99} ms, ${next.mebibytes.toFixed(0)} MiB`,
        );
        if (next.removed > 0) phases.push(next);
      }
      const of = (pick: (it: Phase) => number, all: readonly Phase[]) =>
        all.map(pick).toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? Number.NaN;
      const line = (what: string, all: readonly Phase[]) => [
        what,
        of((it) => it.load.p50, all).toFixed(1),
        of((it) => it.load.p99, all).toFixed(1),
        all.reduce((sum, it) => sum + it.removed, 0),
        Math.max(...all.map((it) => it.mebibytes)).toFixed(0),
      ];
      const head = ['', 'p50, ms', 'p99, ms', 'rows removed', 'table, MiB at most'];
      const lines = [line('nothing is removed', [still]), line('rows are removed', phases)];
      return `${stamp()}; ${perSecond} requests a second, medians of ${seconds} s each.\n\n${table(head, lines, 1)}`;
    } finally {
      await service.stop();
    }
  },
};
