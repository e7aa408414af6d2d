/** Many rows per message: one WebSocket with batches of 100, and one request of a million lines. */
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { runJson, script, treeUsage } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { startService } from './service.ts';
import type { Service } from './service.ts';
import type { SocketJob, SocketResult } from './socket-load.ts';
import { median } from './statistics.ts';

const columns = 'id BIGINT, name TEXT, amount NUMERIC, ok BOOLEAN, tags TEXT[], extra JSONB';
const tables = {
  document: 'data JSONB',
  typed: columns,
  upserts: `${columns}, PRIMARY KEY (id)`,
} as const;
type TableKind = keyof typeof tables;

const told: { readonly [name in TableKind]: string } = {
  document: 'one JSONB column',
  typed: 'six typed columns',
  upserts: 'six typed columns, PRIMARY KEY, 10,000 keys again and again',
};

const itemOf = (i: number) =>
  JSON.stringify({
    id: (i * 7_919) % 10_000,
    name: `customer ${i}`,
    amount: Number(`${i % 1_000}.25`),
    ok: i % 2 === 0,
    tags: ['a', 'b'],
    extra: { action: 'opened' },
  });

interface Measured extends SocketResult {
  readonly perSecond: number;
  readonly nodeCpuUs: number;
  readonly engineCpuUs: number;
}

async function overSocket(service: Service, name: TableKind, seconds: number): Promise<Measured> {
  const job: SocketJob = {
    url: `ws://127.0.0.1:${service.ports.listen.port}/ingest/dev/public/${name}`,
    seconds,
    items: Array.from({ length: 20_000 }, (_, i) => itemOf(i)),
    perBatch: 100,
    underWay: 64,
  };
  const before = treeUsage(service.pid);
  const result = await runJson<SocketResult>(script('./socket-load.js'), job);
  const after = treeUsage(service.pid);
  return {
    ...result,
    perSecond: result.rows / result.seconds,
    nodeCpuUs: ((after.program.cpuSeconds - before.program.cpuSeconds) * 1e6) / result.rows,
    engineCpuUs: ((after.engine.cpuSeconds - before.engine.cpuSeconds) * 1e6) / result.rows,
  };
}

const lines = 1_000_000;

/** One request of a million lines; returns the seconds until its answer and the process's peak memory. */
async function million(
  service: Service,
  name: string,
): Promise<{ seconds: number; peakMiB: number; MiB: number }> {
  const parts: string[] = [];
  for (let i = 0; i < lines; i += 10_000)
    parts.push(Array.from({ length: 10_000 }, (_, k) => `{"id":${i + k},"v":${k}}\n`).join(''));
  const body = Buffer.from(parts.join(''));
  const started = performance.now();
  const text = await new Promise<string>((resolve, reject) => {
    const sent = request(service.url(name), { method: 'POST' }, (response) => {
      let answer = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (answer += chunk));
      response.on('end', () => resolve(answer));
    });
    sent.on('error', reject);
    sent.end(body);
  });
  if (text !== `{"rows":${lines}}`) throw new Error(text);
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  const peakMiB = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1_024;
  return { seconds: (performance.now() - started) / 1_000, peakMiB, MiB: body.length / 2 ** 20 };
}

async function socketSection(seconds: number, rounds: number): Promise<string> {
  const service = await startService();
  try {
    for (const [name, list] of Object.entries(tables))
      await service.client.query(`CREATE TABLE ${name} (${list}) WITH (connector = 'webhook')`);
    const kinds = Object.keys(tables) as TableKind[];
    const measured = await inTurns(
      rounds,
      'one WebSocket',
      Object.fromEntries(kinds.map((name) => [name, () => overSocket(service, name, seconds)])) as {
        readonly [name in TableKind]: () => Promise<Measured>;
      },
    );
    const rows = kinds.map((name) => {
      const of = (pick: (m: Measured) => number, digits = 0) =>
        median(measured.map((round) => pick(round[name]))).toFixed(digits);
      return [
        told[name],
        spread(
          measured.map((round) => round[name].perSecond),
          0,
        ),
        `${of((m) => m.p50, 1)} / ${of((m) => m.p99, 1)}`,
        `${of((m) => m.nodeCpuUs, 1)} + ${of((m) => m.engineCpuUs, 1)}`,
      ];
    });
    return table(
      ['table', 'rows/s (min–max)', 'ack p50 / p99, ms', 'CPU per row: node + engine, µs'],
      rows,
      1,
    );
  } finally {
    await service.stop();
  }
}

/** Each in a process of its own, so that the peak belongs to it. */
async function millionSection(): Promise<string> {
  const kinds = {
    'one JSONB column': 'data JSONB',
    'two typed columns': 'id INT, v INT',
    'two typed columns, PRIMARY KEY': 'id INT PRIMARY KEY, v INT',
  };
  const rows: (string | number)[][] = [];
  for (const [name, list] of Object.entries(kinds)) {
    const service = await startService();
    try {
      await service.client.query(
        `CREATE TABLE lines (${list}) WITH (connector = 'webhook', is_batched = true)`,
      );
      const idle = treeUsage(service.pid).program.rssBytes / 2 ** 20;
      const { seconds, peakMiB, MiB } = await million(service, 'lines');
      rows.push([
        name,
        MiB.toFixed(0),
        seconds.toFixed(1),
        Math.round(lines / seconds),
        `${idle.toFixed(0)} → ${peakMiB.toFixed(0)}`,
      ]);
    } finally {
      await service.stop();
    }
  }
  return table(['table', 'body, MiB', 's', 'rows/s', 'node RSS before → peak, MiB'], rows, 1);
}

export const batches: Bench = {
  name: 'batches',
  run: async ({ rounds, seconds }) => {
    const socket = await socketSection(seconds, rounds);
    return [
      `${stamp()}; server, engine and client share it.`,
      '',
      `One WebSocket, batches of 100 items of ${itemOf(1).length} bytes, 64 under way, each acknowledged after COMMIT; ${rounds} rounds of ${seconds} s in turns.`,
      '',
      socket,
      '',
      `One request of ${lines} lines (\`is_batched\`), one transaction.`,
      '',
      await millionSection(),
    ].join('\n');
  },
};
