/**
 * Rows followed while they are stored: batches at 50,000 rows per second, and as many as possible, without readers and with
 * three, one of which reads a tenth of the rows.
 */
import { Agent, request } from 'node:http';
import { runJson, script, treeUsage } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { startService } from './service.ts';
import type { Service } from './service.ts';
import { median } from './statistics.ts';
import type { StreamJob, StreamResult } from './stream-load.ts';

const linesOfBatch = 1_000;
const paced = 50_000;
const connections = 4;
const rowsThere = 3_000_000;
const line = (n: number): string =>
  `{"id":${n},"user":"user-${n % 997}","page":"/products/${n}?ref=newsletter","action":"opened"}`;
const body = Buffer.from(Array.from({ length: linesOfBatch }, (_, n) => line(n)).join('\n'));
/** The size of such a row as an event, in bytes. */
const eventBytes = line(100).length + 30;

interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly cpuUs: number;
  /** For each reader, the share of the stored rows that it received. */
  readonly told: readonly number[];
}

/** `perSecondMax`: rows; null: as fast as answers come. */
async function store(url: string, seconds: number, perSecondMax: number | null) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const latencies: number[] = [];
  const began = performance.now();
  const sent = { batches: 0 };
  const post = () =>
    new Promise<void>((resolve, reject) => {
      const at = performance.now();
      const asked = request(url, { method: 'POST', agent }, (response) => {
        response.resume().once('end', () => {
          latencies.push(performance.now() - at);
          if (response.statusCode === 200) resolve();
          else reject(new Error(`${response.statusCode}`));
        });
      });
      asked.once('error', reject).end(body);
    });
  const sender = async (): Promise<void> => {
    while (performance.now() - began < seconds * 1_000) {
      const due = perSecondMax === null ? 0 : (sent.batches * linesOfBatch * 1_000) / perSecondMax;
      sent.batches += 1;
      const early = due - (performance.now() - began);
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      await post();
    }
  };
  await Promise.all(Array.from({ length: connections }, sender));
  agent.destroy();
  const took = (performance.now() - began) / 1_000;
  const sorted = latencies.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
  const rows = sorted.length * linesOfBatch;
  return { rows, perSecond: rows / took, p50: at(0.5), p99: at(0.99) };
}

async function measure(
  service: Service,
  seconds: number,
  perSecondMax: number | null,
  readers: StreamJob['readers'],
): Promise<Measured> {
  const url = `http://127.0.0.1:${service.ports.gateway?.port ?? 0}/v1/events?name=followed`;
  const before = treeUsage(service.pid);
  const cpuOf = ({ program, engine }: typeof before) => program.cpuSeconds + engine.cpuSeconds;
  const following =
    readers.length === 0
      ? Promise.resolve({ rows: [] })
      : // They start before the load, and end a moment after it.
        runJson<StreamResult>(script('./stream-load.js'), {
          url,
          seconds: seconds + 2,
          readers,
        } satisfies StreamJob);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const stored = await store(service.url('followed'), seconds, perSecondMax);
  const told = (await following).rows.map((rows) => rows / stored.rows);
  const cpuUs = ((cpuOf(treeUsage(service.pid)) - cpuOf(before)) * 1e6) / stored.rows;
  return { ...stored, cpuUs, told };
}

export const stream: Bench = {
  name: 'stream',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    try {
      await service.client.query(
        "CREATE TABLE followed (data JSONB) WITH (connector = 'webhook', is_batched = true)",
      );
      const slow = (paced * eventBytes) / 10;
      const rows: string[][] = [];
      const followed: number[] = [];
      for (const [offered, perSecondMax, there] of [
        [`${paced} rows/s`, paced, 0],
        [`the same, where ${rowsThere} rows are`, paced, rowsThere],
        ['as many as are answered', null, 0],
      ] as const) {
        await service.client.query('TRUNCATE followed');
        await service.client.query(
          `INSERT INTO followed SELECT '${line(1)}' FROM generate_series(1, ${there})`,
        );
        const turns = await inTurns(rounds, offered, {
          alone: () => measure(service, seconds, perSecondMax, []),
          followed: () => measure(service, seconds, perSecondMax, [null, null, slow]),
        });
        const ratios = turns.map((turn) => turn.followed.perSecond / turn.alone.perSecond);
        if (perSecondMax !== null) followed.push(median(ratios));
        const of = (pick: (it: Measured) => number, which: 'alone' | 'followed', digits: number) =>
          median(turns.map((turn) => pick(turn[which]))).toFixed(digits);
        const both = (pick: (it: Measured) => number, digits: number) =>
          `${of(pick, 'alone', digits)} → ${of(pick, 'followed', digits)}`;
        rows.push([
          offered,
          both((it) => it.perSecond, 0),
          spread(ratios),
          both((it) => it.p50, 1),
          both((it) => it.p99, 1),
          both((it) => it.cpuUs, 1),
          [0, 1, 2]
            .map((i) => `${(Number(of((it) => it.told[i] ?? 0, 'followed', 4)) * 100).toFixed(1)} %`)
            .join(', '),
        ]);
      }
      const text = [
        `${stamp()}; server, engine, load generator and readers share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.`,
        '',
        `Batches of ${linesOfBatch} lines into a table with one JSONB column, ${connections} connections; without readers → with three, one of which reads ${(slow / 1_000_000).toFixed(1)} MB/s.`,
        '',
        table(
          [
            'offered',
            'rows/s',
            'ratio (min–max)',
            'answer p50, ms',
            'p99, ms',
            'CPU a row, µs',
            'told within 2 s',
          ],
          rows,
          1,
        ),
      ].join('\n');
      return { text, reached: { followed: Math.min(...followed) } };
    } finally {
      await service.stop();
    }
  },
};
