/**
 * One, two and four listener processes, each a Headgate of its own with the same table, under the same load in turns. On few
 * cores it shows what more processes cost; from the CPU time of each process, what they would give on more.
 */
import { createHmac } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { cpuOfDescendants, median, runJson, script, usageOf } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, machine, spread, table } from './report.ts';
import { startService } from './service.ts';
import type { Job, LoadResult, Service } from './service.ts';

const secret = 'It is a secret to everybody';
const body = JSON.stringify({ action: 'opened', number: 4711, text: 'x'.repeat(160) });
const signature = createHmac('sha256', secret).update(body).digest('hex');
const headers = { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}` };
const counts = { one: 1, two: 2, four: 4 } as const;

interface Turn extends LoadResult {
  readonly perSecond: number;
  /** CPU time per request, µs: of the main process, of all listener processes, of the busiest one of these and the engine. */
  readonly mainUs: number;
  readonly listenersUs: number;
  readonly busiestUs: number;
  readonly engineUs: number;
  readonly rssMiB: number;
}

function listenersOf(service: Service): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
        return (
          parent === service.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('listeners/entry')
        );
      } catch {
        return false;
      }
    });
}

async function turn(service: Service, job: Job): Promise<Turn> {
  const pids = listenersOf(service);
  const look = () => ({
    main: usageOf(service.pid).cpuSeconds,
    listeners: pids.map((pid) => usageOf(pid).cpuSeconds),
    all: cpuOfDescendants(service.pid),
  });
  const before = look();
  const load = await runJson<LoadResult>(script('./load.js'), job);
  if (load.other > 0) throw new Error(`${load.other} requests to ${job.url} were not answered 2xx`);
  const after = look();
  const per = (seconds: number) => (seconds * 1e6) / load.requests;
  const each = pids.map((_, i) => (after.listeners[i] ?? 0) - (before.listeners[i] ?? 0));
  const sum = each.reduce((a, b) => a + b, 0);
  const main = after.main - before.main;
  return {
    ...load,
    perSecond: load.requests / load.seconds,
    mainUs: per(main),
    listenersUs: per(sum),
    busiestUs: per(Math.max(main, ...each)),
    engineUs: per(after.all - before.all - sum),
    rssMiB: [service.pid, ...pids].reduce((all, pid) => all + usageOf(pid).rssBytes, 0) / 2 ** 20,
  };
}

export const listeners: Bench = {
  name: 'listeners',
  run: async ({ rounds, seconds }) => {
    const services: Service[] = [];
    try {
      for (const count of Object.values(counts)) {
        const service = await startService([`--listeners=${count}`]);
        services.push(service);
        await service.client.query(`
          CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
          CREATE TABLE events (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
            secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
      }
      const lines: (string | number)[][] = [];
      for (const [connections, more, what] of [
        [64, {}, '64'],
        [256, {}, '256'],
        [64, { connection: 'close' }, '64, a new one for each request'],
      ] as const) {
        const run = (i: number) => () => {
          const service = services[i];
          if (service === undefined) throw new Error('no such service');
          const job = { connections, seconds, headers: { ...headers, ...more }, bodies: [body] };
          return turn(service, { ...job, url: service.url('events') });
        };
        const turns = await inTurns(rounds, `${what} connections`, {
          one: run(0),
          two: run(1),
          four: run(2),
        });
        for (const name of ['one', 'two', 'four'] as const) {
          const of = (pick: (turn: Turn) => number) => median(turns.map((it) => pick(it[name])));
          lines.push([
            what,
            counts[name],
            of((it) => it.perSecond).toFixed(0),
            spread(turns.map((it) => it[name].perSecond / it.one.perSecond)),
            `${of((it) => it.p50).toFixed(0)} / ${of((it) => it.p99).toFixed(0)}`,
            [of((it) => it.mainUs), of((it) => it.listenersUs), of((it) => it.engineUs)]
              .map((us) => us.toFixed(1))
              .join(' + '),
            (1e6 / of((it) => it.busiestUs)).toFixed(0),
            of((it) => it.rssMiB).toFixed(0),
          ]);
        }
      }
      return [
        `Machine: ${machine()}; server, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. Body ${body.length} bytes.`,
        '',
        table(
          [
            'connections',
            'processes',
            'req/s',
            'ratio to one (min–max)',
            'p50 / p99, ms',
            'CPU per request: main + listeners + engine, µs',
            'the busiest Node process could, req/s',
            'RSS of all Node processes, MiB',
          ],
          lines,
        ),
      ].join('\n');
    } finally {
      for (const service of services) await service.stop();
    }
  },
};
