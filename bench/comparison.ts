/**
 * Signed, durable single events at 256 connections: Headgate, and other programs that store webhooks in PostgreSQL, in
 * turns in one run and in one engine. A contestant that cannot run loses only its own line.
 */
import {
  bare,
  connections,
  fastify,
  headgate,
  nodeRed,
  pgbenchInserts,
  redpanda,
  rowsOf,
  webhookPsql,
} from './contestants.ts';
import type { Contestant } from './contestants.ts';
import { convoy } from './convoy.ts';
import { n8n } from './n8n.ts';
import { spread, stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { startService } from './service.ts';
import type { Measured, Service } from './service.ts';
import { body } from './signed.ts';
import { median } from './statistics.ts';
import { barPlot } from './svg.ts';

interface Entry {
  readonly name: string;
  readonly open: (service: Service) => Promise<Contestant>;
}

const ours = 'Headgate';

const entries: readonly Entry[] = [
  { name: ours, open: headgate },
  { name: 'bare `node:http`, stores nothing', open: bare },
  fastify.plain,
  fastify.prepared,
  { name: 'Node-RED', open: nodeRed },
  { name: 'n8n', open: n8n },
  { name: 'Redpanda Connect', open: redpanda },
  { name: 'Convoy', open: convoy },
  { name: '`webhook` + psql', open: webhookPsql },
  { name: 'pgbench, one INSERT a transaction', open: pgbenchInserts },
];

interface Running extends Entry {
  readonly contestant: Contestant;
  readonly results: Measured[];
}

/** The contestants that run, and why the others do not. */
async function race(
  service: Service,
  running: Running[],
  failed: Map<string, string>,
  effort: { readonly rounds: number; readonly seconds: number },
): Promise<void> {
  for (let round = 0; round <= effort.rounds; round++) {
    for (const entry of running) {
      if (failed.has(entry.name)) continue;
      try {
        // What the previous one wrote is on disk before the next starts.
        await service.client.query('CHECKPOINT');
        const result = await entry.contestant.run(effort.seconds);
        console.error(`${entry.name}${round === 0 ? ' (warm-up)' : ''}: ${result.perSecond.toFixed(0)}/s`);
        if (round > 0) entry.results.push(result);
      } catch (error) {
        failed.set(entry.name, why(error));
      }
    }
  }
}

/** Every request answered 2xx must be in its table, for all contestants. */
async function verify(service: Service, running: readonly Running[], failed: Map<string, string>): Promise<void> {
  for (const { name, contestant, results } of running) {
    if (contestant.table === null || failed.has(name)) continue;
    const stored = await (contestant.stored?.() ?? rowsOf(service.client, contestant.table));
    const answered = results.reduce((sum, { requests }) => sum + requests, 0);
    if (stored < answered) failed.set(name, `${answered} requests were answered 2xx, ${stored} rows stored`);
  }
} // prettier-ignore

function why(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '';
}

function lines(running: readonly Running[]): (string | number)[][] {
  const rates = running.find(({ name }) => name === ours)?.results.map((it) => it.perSecond) ?? [];
  return running.map(({ name, results }) => {
    const of = (pick: (m: Measured) => number, digits: number) => {
      const value = median(results.map(pick));
      return Number.isNaN(value) ? '' : value.toFixed(digits);
    };
    const ratios = results.map((it, round) => (rates[round] ?? Number.NaN) / it.perSecond);
    return [
      name,
      spread(results.map((it) => it.perSecond), 0),
      name === ours ? '' : spread(ratios, Math.max(...ratios) < 10 ? 2 : 0),
      `${of((m) => m.p50, 1)} / ${of((m) => m.p99, 1)}`,
      of((m) => m.other, 0),
      `${of((m) => m.nodeCpuUs, 0) || '–'} / ${of((m) => m.engineCpuUs, 0)}`,
      of((m) => m.rssMiB, 0),
    ];
  }); // prettier-ignore
}

export const comparison: Bench = {
  name: 'comparison',
  run: async ({ rounds, seconds }) => {
    // Vacuuming one contestant's tables would slow the next one.
    const service = await startService({ engineSettings: ['max_connections = 700', 'autovacuum = off'] });
    const running: Running[] = [];
    const failed = new Map<string, string>();
    try {
      for (const entry of entries) {
        try {
          running.push({ ...entry, contestant: await entry.open(service), results: [] });
        } catch (error) {
          failed.set(entry.name, why(error));
        }
      }
      await race(service, running, failed, { rounds, seconds });
      await verify(service, running, failed);
      const whole = running.filter(({ name }) => !failed.has(name));
      const rate = (name: string) =>
        median(whole.find((it) => it.name === name)?.results.map((it) => it.perSecond) ?? []);
      const best = Math.max(...Object.values(fastify).map(({ name }) => rate(name)).filter((value) => !Number.isNaN(value)));
      const head = [
        'contestant',
        'req/s (min–max)',
        'Headgate is … times as fast (min–max)',
        'p50 / p99, ms',
        'not 2xx',
        'CPU a request, µs: program / engine',
        'memory, MiB',
      ];
      const notes = whole.flatMap(({ name, contestant: { note } }) => (note === undefined ? [] : [`- ${name}: ${note}.`]));
      const missing = [...failed].map(([name, reason]) => `- ${name} did not run: ${reason}.`);
      return {
        text: [
          `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. ${connections} connections, body ${body.length} bytes.`,
          '',
          table(head, lines(whole), 1),
          ...(notes.length + missing.length === 0 ? [] : ['', ...notes, ...missing]),
        ].join('\n'),
        reached: { byHand: rate(ours) / best },
        plots: {
          'comparison.svg': barPlot({
            title: `Signed single events into PostgreSQL, ${connections} connections, fsync on`,
            x: 'requests a second',
            bars: whole.map(({ name, results }) => {
              const rates = results.map((it) => it.perSecond);
              return {
                name: name.replaceAll('`', ''),
                value: median(rates),
                range: [Math.min(...rates), Math.max(...rates)] as const,
                group: name === ours ? 0 : 4,
              };
            }),
          }),
        },
      };
    } finally {
      await Promise.allSettled(running.map(({ contestant }) => contestant.stop()));
      await service.stop();
    }
  },
}; // prettier-ignore
