/**
 * Many tables, many rows, and how soon there is an answer: 5,000 tables against one, ten million rows against none, a
 * table from its creation to its first accepted request, and the program from its start. BENCH_ROWS and BENCH_TABLES set
 * the numbers.
 */
import { Client } from 'pg';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Reached } from './goals.ts';
import type { Bench, Effort } from './report.ts';
import { measure, startService } from './service.ts';
import type { Measured, Service } from './service.ts';
import { body, check, createSigned, signedHeaders } from './signed.ts';
import { firstAnswers, starts } from './scale-first.ts';
import { median } from './statistics.ts';

const tableCount = Number(process.env['BENCH_TABLES'] ?? 5_000);
const rowCount = Number(process.env['BENCH_ROWS'] ?? 10_000_000);
const connections = 256;

type Lines = (readonly (string | number)[])[];

function line(name: string, measured: readonly Measured[], ratios: readonly number[]): Lines[number] {
  const of = (pick: (m: Measured) => number, digits = 0) => median(measured.map(pick)).toFixed(digits);
  return [
    name,
    of((m) => m.perSecond),
    spread(ratios),
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

/** Through the engine's own socket: filling is not measured. */
async function fill(service: Service): Promise<void> {
  const engine = new Client(service.engine);
  await engine.connect();
  try {
    const started = performance.now();
    const document = `'{"action": "opened", "number": ' || i || ', "sender": {"login": "octocat"}}'`;
    for (let from = 1; from <= rowCount; from += 1_000_000) {
      const to = Math.min(from + 999_999, rowCount);
      const series = `generate_series(${from}, ${to}) as i`;
      await engine.query(`insert into filled (data) select (${document})::jsonb from ${series}`);
      await engine.query(`insert into filled_keys (id, note) select i, 'note ' || i from ${series}`);
    }
    await engine.query('vacuum (freeze, analyze) filled');
    await engine.query('vacuum (freeze, analyze) filled_keys');
    await engine.query('checkpoint');
    console.error(`2 x ${rowCount} rows: ${((performance.now() - started) / 1_000).toFixed(1)} s`);
  } finally {
    await engine.end();
  }
}

async function manyRows({ rounds, seconds }: Effort): Promise<{ lines: Lines; rows: number; keys: number }> {
  const service = await startService();
  try {
    await createSigned(service.client, 'empty', 'filled');
    const bearer = 'Bearer 0123456789abcdef';
    for (const name of ['empty_keys', 'filled_keys'])
      await service.client.query(`CREATE TABLE ${name} (id BIGINT PRIMARY KEY, note TEXT)
        WITH (connector = 'webhook') VALIDATE AS secure_compare(headers->>'authorization', '${bearer}')`);
    await fill(service);
    const signed = { connections, seconds, headers: signedHeaders(body), bodies: [body] };
    // Keys in random order, from all over the table.
    const bodies = Array.from({ length: 51_200 }, (_, i) =>
      JSON.stringify({ id: 1 + ((i * 7_919_219) % rowCount), note: `again ${i}` }),
    );
    const headers = { 'content-type': 'application/json', authorization: bearer };
    const keyed = { connections, seconds, headers, bodies };
    const run = async (name: string, job: Omit<Parameters<typeof measure>[0], 'url'>) => {
      // An empty table stays empty, and a run does not write out the pages of the previous one.
      if (name.startsWith('empty')) await service.client.query(`TRUNCATE ${name}`);
      await service.client.query('CHECKPOINT');
      return measure({ ...job, url: service.url(name) }, service.pid);
    };
    const turns = await inTurns(rounds, 'rows', {
      empty: () => run('empty', signed),
      filled: () => run('filled', signed),
      emptyKeys: () => run('empty_keys', keyed),
      filledKeys: () => run('filled_keys', keyed),
    });
    const told = rowCount.toLocaleString('en-US');
    const rows = turns.map((turn) => turn.filled.perSecond / turn.empty.perSecond);
    const keys = turns.map((turn) => turn.filledKeys.perSecond / turn.emptyKeys.perSecond);
    return {
      lines: [
        line('one JSONB column, empty', turns.map(({ empty }) => empty), [1]),
        line(`the same with ${told} rows`, turns.map(({ filled }) => filled), rows),
        line('two typed columns, PRIMARY KEY, keys at random, empty', turns.map(({ emptyKeys }) => emptyKeys), [1]),
        line(`the same with ${told} rows`, turns.map(({ filledKeys }) => filledKeys), keys),
      ],
      rows: median(rows),
      keys: median(keys),
    }; // prettier-ignore
  } finally {
    await service.stop();
  }
}

/** A part that fails loses only its own lines. */
async function attempt(part: () => Promise<{ text: string; reached: Reached }>, own: Reached) {
  try {
    return await part();
  } catch (error) {
    console.error(error);
    const said = error instanceof Error ? error.message : String(error);
    return { text: `Failed in this run: ${said.split('\n')[0]}`, reached: own };
  }
}

export const scale: Bench = {
  name: 'scale',
  run: async (effort) => {
    const failed = Number.NaN;
    const { BENCH_PART: only = '' } = process.env;
    const parts: { readonly text: string; readonly reached: Reached }[] = [];
    const add = async (name: string, part: Parameters<typeof attempt>[0], own: Reached) => {
      if (only === '' || only === name) parts.push(await attempt(part, own));
    };
    await add(
      'tables',
      async () => {
        const { lines, one, all } = await manyTables(effort);
        return { text: table(head, lines, 1), reached: { oneOfManyTables: one, manyTables: all } };
      },
      { oneOfManyTables: failed, manyTables: failed },
    );
    await add(
      'rows',
      async () => {
        const { lines, rows, keys } = await manyRows(effort);
        return { text: table(head, lines, 1), reached: { manyRows: rows, manyKeys: keys } };
      },
      { manyRows: failed, manyKeys: failed },
    );
    await add('first', async () => ({ text: await firstAnswers(), reached: {} }), {});
    await add('starts', async () => ({ text: await starts(), reached: {} }), {});
    return {
      text: [
        `${stamp()}; ${effort.rounds} rounds of ${effort.seconds} s in turns after one to warm up; medians. ${connections} connections.`,
        ...parts.map(({ text }) => text),
      ].join('\n\n'),
      reached: Object.assign({}, ...parts.map(({ reached }) => reached)) as Reached,
    };
  },
};
