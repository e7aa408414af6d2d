/** Many rows per message: one WebSocket with batches of 100. */
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measureSocket, startService } from './service.ts';
import type { SocketMeasured } from './service.ts';
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

const items = Array.from({ length: 20_000 }, (_, i) => itemOf(i));

async function socketSection(seconds: number, rounds: number): Promise<string> {
  const service = await startService();
  try {
    for (const [name, list] of Object.entries(tables))
      await service.client.query(`CREATE TABLE ${name} (${list}) WITH (connector = 'webhook')`);
    const kinds = Object.keys(tables) as TableKind[];
    const measured = await inTurns(
      rounds,
      'one WebSocket',
      Object.fromEntries(
        kinds.map((name) => [name, () => measureSocket(service, `public/${name}`, items, seconds)]),
      ) as {
        readonly [name in TableKind]: () => Promise<SocketMeasured>;
      },
    );
    const rows = kinds.map((name) => {
      const of = (pick: (m: SocketMeasured) => number, digits = 0) =>
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

export const batches: Bench = {
  name: 'batches',
  run: async ({ rounds, seconds }) => {
    return [
      `${stamp()}; server, engine and client share it.`,
      '',
      `One WebSocket, batches of 100 items of ${itemOf(1).length} bytes, 64 under way, each acknowledged after COMMIT; ${rounds} rounds of ${seconds} s in turns.`,
      '',
      await socketSection(seconds, rounds),
    ].join('\n');
  },
};
