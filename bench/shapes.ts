/** The same bodies into tables of other shapes: one JSONB column, typed columns, and a primary key. */
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import type { Measured } from './service.ts';
import { median } from './statistics.ts';

const columns = 'id BIGINT, name TEXT, amount NUMERIC, ok BOOLEAN, tags TEXT[], extra JSONB';
const shapes = {
  document: 'data JSONB',
  typed: columns,
  upserts: `${columns}, PRIMARY KEY (id)`,
  generated: `data JSONB, id BIGINT GENERATED ALWAYS AS ((data->>'id')::bigint) STORED PRIMARY KEY`,
} as const;
type ShapeName = keyof typeof shapes;

const told: { readonly [name in ShapeName]: string } = {
  document: 'one JSONB column',
  typed: 'six typed columns',
  upserts: 'six typed columns, PRIMARY KEY, 10,000 keys again and again',
  generated: 'one JSONB column, PRIMARY KEY generated from it, the same keys',
};
const keys = 10_000;

/** Keys in random order, all equally frequent. */
const bodies = Array.from({ length: 2_000 }, (_, i) =>
  JSON.stringify({
    id: (i * 7_919) % keys,
    name: `customer ${i}`,
    amount: Number(`${i}.25`),
    ok: i % 2 === 0,
    tags: ['a', 'b'],
    extra: { action: 'opened', text: 'x'.repeat(60) },
  }),
);
const headers = { 'content-type': 'application/json', authorization: 'Bearer 0123456789abcdef' };

export const tableShapes: Bench = {
  name: 'table-shapes',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    try {
      for (const [name, list] of Object.entries(shapes)) {
        await service.client.query(`CREATE TABLE ${name} (${list}) WITH (connector = 'webhook')
          VALIDATE AS secure_compare(headers->>'authorization', 'Bearer 0123456789abcdef')`);
      }
      const candidates = Object.fromEntries(
        Object.keys(shapes).map((name) => [
          name,
          () => measure({ url: service.url(name), connections: 256, seconds, headers, bodies }, service.pid),
        ]),
      ) as { readonly [name in ShapeName]: () => Promise<Measured> };
      const measured = await inTurns(rounds, '256 connections', candidates);
      const lines = (Object.keys(shapes) as ShapeName[]).map((name) => {
        const of = (pick: (m: Measured) => number, digits = 0) =>
          median(measured.map((round) => pick(round[name]))).toFixed(digits);
        return [
          told[name],
          of((m) => m.perSecond),
          spread(measured.map((round) => round[name].perSecond / round.document.perSecond)),
          `${of((m) => m.p50, 1)} / ${of((m) => m.p99, 1)}`,
          `${of((m) => m.nodeCpuUs)} + ${of((m) => m.engineCpuUs)}`,
        ];
      });
      const size = Math.round(bodies.reduce((sum, body) => sum + body.length, 0) / bodies.length);
      return [
        `${stamp()}; ${rounds} rounds of ${seconds} s in turns, 256 connections, bodies of ${size} bytes, a bearer token checked.`,
        '',
        table(
          [
            'table',
            'req/s',
            'ratio to one JSONB column',
            'p50 / p99, ms',
            'CPU per request: node + engine, µs',
          ],
          lines,
          1,
        ),
      ].join('\n');
    } finally {
      await service.stop();
    }
  },
};
