/** Requests spread over 5,000 tables, and to one of them, beside the same requests to the only table of another Headgate. BENCH_TABLES sets the number. */
import { inTurns, spread as spreadOf, stamp, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { measure, startService } from './service.ts';
import type { Measured } from './service.ts';
import { body, check, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const tableCount = Number(process.env['BENCH_TABLES'] ?? 5_000);
const connections = 256;

type Lines = (readonly (string | number)[])[];

function line(name: string, measured: readonly Measured[], ratios: readonly number[]): Lines[number] {
  const of = (pick: (m: Measured) => number, digits = 0) => median(measured.map(pick)).toFixed(digits);
  return [
    name,
    of((m) => m.perSecond),
    spreadOf(ratios),
    `${of((m) => m.p50, 1)} / ${of((m) => m.p99, 1)}`,
    `${of((m) => m.nodeCpuUs)} / ${of((m) => m.engineCpuUs)}`,
    of((m) => m.rssMiB),
  ];
}

const head = [
  'table',
  'req/s',
  'beside the first (min–max)',
  'p50 / p99, ms',
  'CPU a request, µs: node / engine',
  'node, MiB',
];

/** Two programs, each with its own engine: one has a single table, the other has all of them. */
async function manyTables({ rounds, seconds }: Effort): Promise<{ lines: Lines; one: number; all: number }> {
  const few = await startService();
  try {
    const many = await startService();
    try {
      await createSigned(few.client, 'events');
      await createSigned(many.client, 'events');
      const started = performance.now();
      const names = Array.from({ length: tableCount - 1 }, (_, i) => `t${i}`);
      for (let i = 0; i < names.length; i += 100) {
        const create = (name: string) =>
          `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook') ${check}`;
        await many.client.query(names.slice(i, i + 100).map(create).join('; ')); // prettier-ignore
      }
      console.error(`${tableCount} tables: ${((performance.now() - started) / 1_000).toFixed(1)} s`);
      const job = { connections, seconds, headers: signedHeaders(body), bodies: [body] };
      const paths = ['events', ...names].map((name) => new URL(many.url(name)).pathname);
      const turns = await inTurns(rounds, 'tables', {
        only: () => measure({ ...job, url: few.url('events') }, few.pid),
        one: () => measure({ ...job, url: many.url('events') }, many.pid),
        all: () => measure({ ...job, url: many.url('events'), paths }, many.pid),
      });
      const ratios = (name: 'one' | 'all') => turns.map((turn) => turn[name].perSecond / turn.only.perSecond);
      const told = tableCount.toLocaleString('en-US');
      return {
        lines: [
          line('the only table', turns.map(({ only }) => only), [1]),
          line(`one of ${told} tables`, turns.map(({ one }) => one), ratios('one')),
          line(`spread over ${told} tables`, turns.map(({ all }) => all), ratios('all')),
        ],
        one: median(ratios('one')),
        all: median(ratios('all')),
      }; // prettier-ignore
    } finally {
      await many.stop();
    }
  } finally {
    await few.stop();
  }
}

export const spread: Bench = {
  name: 'spread',
  run: async (effort) => {
    const { lines, one, all } = await manyTables(effort);
    const said = `${stamp()}; ${effort.rounds} rounds of ${effort.seconds} s in turns after one to warm up; medians. ${connections} connections.`;
    return {
      text: `${said}\n\n${table(head, lines, 1)}`,
      reached: { oneOfManyTables: one, manyTables: all },
    };
  },
};
