/**
 * One to eight Headgates on one database, each with a load and a table of its own, on the same cores: the wall-clock rates show what more of them
 * cost, the CPU time of each process what they would achieve on separate machines, as long as the database keeps up.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runJson, script, treeUsage } from './processes.ts';
import { inTurns, machine, spread, table } from './report.ts';
import type { Bench } from './report.ts';
import { startIn, startService } from './service.ts';
import type { LoadResult, Service } from './service.ts';
import { body, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const counts = { one: 1, two: 2, four: 4, eight: 8 } as const;
/** For each Headgate: more Headgates serve more senders. */
const connections = 64;

interface Turn {
  readonly perSecond: number;
  /** CPU time per request, µs: of a Headgate, of the database. */
  readonly headgateUs: number;
  readonly engineUs: number;
  readonly p99: number;
}

async function turn(first: Service, headgates: readonly Service[], seconds: number): Promise<Turn> {
  const used = () => ({
    headgates: headgates.reduce((sum, { pid }) => sum + treeUsage(pid).program.cpuSeconds, 0),
    engine: treeUsage(first.enginePid).engine.cpuSeconds,
  });
  const before = used();
  const loads = await Promise.all(
    headgates.map((it, i) =>
      runJson<LoadResult>(script('./load.js'), {
        url: it.url(`t${i}`),
        connections,
        seconds,
        headers: signedHeaders(body),
        bodies: [body],
      }),
    ),
  );
  const after = used();
  const requests = loads.reduce((sum, it) => sum + it.requests, 0);
  if (loads.some(({ other }) => other > 0)) throw new Error('requests were not answered 2xx');
  return {
    perSecond: loads.reduce((sum, it) => sum + it.requests / it.seconds, 0),
    headgateUs: ((after.headgates - before.headgates) * 1e6) / requests,
    engineUs: ((after.engine - before.engine) * 1e6) / requests,
    p99: Math.max(...loads.map(({ p99 }) => p99)),
  };
}

export const headgates: Bench = {
  name: 'headgates',
  page: 'docs/operating/scaling.md',
  run: async ({ rounds, seconds }) => {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-'));
    const first = await startService();
    const all: Service[] = [];
    try {
      await createSigned(first.client, ...Array.from({ length: 8 }, (_, i) => `t${i}`));
      const { host, port, user, database } = first.engine;
      const url = `postgresql://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
      // All have the key that sealed the secrets.
      const key = `--master-key-file=${join(host, '../../master.key')}`;
      for (let i = 0; i < 8; i++)
        all.push(await startIn(join(folder, String(i)), { flags: [`--database-url=${url}`, key] }));
      const of = (name: keyof typeof counts) => () => turn(first, all.slice(0, counts[name]), seconds);
      const turns = await inTurns(rounds, 'Headgates on one database', {
        one: of('one'),
        two: of('two'),
        four: of('four'),
        eight: of('eight'),
      });
      const lines = (['one', 'two', 'four', 'eight'] as const).map((name) => {
        const count = counts[name];
        const mid = (pick: (it: Turn) => number) => median(turns.map((it) => pick(it[name])));
        return [
          count,
          mid((it) => it.perSecond).toFixed(0),
          spread(turns.map((it) => it[name].perSecond / it.one.perSecond)),
          mid((it) => it.p99).toFixed(1),
          `${mid((it) => it.headgateUs).toFixed(1)} + ${mid((it) => it.engineUs).toFixed(1)}`,
          ((count * 1e6) / mid((it) => it.headgateUs)).toFixed(0),
          (1e6 / mid((it) => it.engineUs)).toFixed(0),
        ];
      });
      const head = [
        'Headgates',
        'req/s',
        'ratio to one (min–max)',
        'p99, ms',
        'CPU a request: Headgate + database, µs',
        'they could on a core each, req/s',
        'the database could on each core, req/s',
      ];
      return `Machine: ${machine()}. ${connections} connections to each, ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.\n\n${table(head, lines)}`;
    } finally {
      for (const it of all) await it.stop();
      await first.stop();
      await rm(folder, { recursive: true, force: true });
    }
  },
};
