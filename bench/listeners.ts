/**
 * One and two listener processes, each a Headgate of its own with the same table, under the same load in turns. On few
 * cores it shows what more processes cost; the CPU time of each process shows what they would achieve on more cores.
 */
import { cpuByProcess } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, machine, spread, table } from './report.ts';
import { measure, startService } from './service.ts';
import type { Job, Measured, Service } from './service.ts';
import { body, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const counts = { one: 1, two: 2 } as const;

interface Turn extends Measured {
  /** CPU time per request, µs: of the main process, of all listener processes, of the busiest listener process. */
  readonly mainUs: number;
  readonly listenersUs: number;
  readonly busiestUs: number;
}

async function turn(service: Service, job: Job): Promise<Turn> {
  const before = cpuByProcess(service.pid);
  const measured = await measure(job, service.pid);
  const each = [...cpuByProcess(service.pid)].map(([pid, cpu]) => ({
    main: pid === service.pid,
    us: ((cpu - (before.get(pid) ?? 0)) * 1e6) / measured.requests,
  }));
  const sum = (main: boolean) => each.reduce((all, it) => all + (it.main === main ? it.us : 0), 0);
  return {
    ...measured,
    mainUs: sum(true),
    listenersUs: sum(false),
    busiestUs: Math.max(...each.map((it) => it.us)),
  };
}

export const listeners: Bench = {
  name: 'listeners',
  run: async ({ rounds, seconds }) => {
    const services: Service[] = [];
    try {
      for (const count of Object.values(counts)) {
        const service = await startService({ listeners: count });
        services.push(service);
        await createSigned(service.client, 'events');
      }
      const lines: (string | number)[][] = [];
      for (const connections of [64, 256]) {
        const run = (i: number) => () => {
          const service = services[i];
          if (service === undefined) throw new Error('no such service');
          const job = { connections, seconds, headers: signedHeaders(body), bodies: [body] };
          return turn(service, { ...job, url: service.url('events') });
        };
        const turns = await inTurns(rounds, `listeners, ${connections} connections`, {
          one: run(0),
          two: run(1),
        });
        for (const name of ['one', 'two'] as const) {
          const of = (pick: (turn: Turn) => number) => median(turns.map((it) => pick(it[name])));
          lines.push([
            connections,
            counts[name],
            of((it) => it.perSecond).toFixed(0),
            spread(turns.map((it) => it[name].perSecond / it.one.perSecond)),
            `${of((it) => it.p50).toFixed(1)} / ${of((it) => it.p99).toFixed(1)}`,
            [of((it) => it.mainUs), of((it) => it.listenersUs), of((it) => it.engineCpuUs)]
              .map((us) => us.toFixed(1))
              .join(' + '),
            (1e6 / of((it) => it.busiestUs)).toFixed(0),
            of((it) => it.rssMiB).toFixed(0),
          ]);
        }
      }
      const head = [
        'connections',
        'processes',
        'req/s',
        'ratio to one (min–max)',
        'p50 / p99, ms',
        'CPU per request: main + listeners + engine, µs',
        'the busiest Node process could, req/s',
        'RSS of all Node processes, MiB',
      ];
      return `Machine: ${machine()}. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.\n\n${table(head, lines)}`;
    } finally {
      for (const service of services) await service.stop();
    }
  },
};
