/** Signed, durable single events of other sizes at 64 connections, compared with the bare server. */
import { script, start } from './processes.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { measure, startService } from './service.ts';
import { createSigned, secret, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const sizes = [200, 2_000, 20_000, 200_000] as const;
const connections = 64;

/** Orders with words and numbers, the same in every run; they compress about as well as real documents. */
function bodyOf(bytes: number): string {
  let state = 1;
  const next = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
  const word = () => Array.from({ length: 3 + next(7) }, () => 'etaoinshrdlu'[next(12)]).join('');
  const items: string[] = [];
  let length = 24;
  while (length < bytes) {
    const item = JSON.stringify({ sku: next(1e6), name: `${word()} ${word()}`, cents: next(1e5) });
    items.push(item);
    length += item.length + 1;
  }
  // The last word pads the body to the exact size.
  const rest = `],"rest":"`;
  const text = `{"items":[${items.slice(0, -1).join(',')}${rest}`;
  return `${text}${'x'.repeat(Math.max(0, bytes - text.length - 2))}"}`;
}

export const bodies: Bench = {
  name: 'bodies',
  run: async ({ rounds, seconds }) => {
    const bare = await start([script('./bare-server.js'), secret], (text) => text.includes('\n'));
    const service = await startService().catch(async (error: unknown) => {
      await bare.stop();
      throw error;
    });
    try {
      await createSigned(service.client, 'events');
      const lines: (string | number)[][] = [];
      for (const size of sizes) {
        const text = bodyOf(size);
        const job = { connections, seconds, headers: signedHeaders(text), bodies: [text] };
        const turns = await inTurns(rounds, `${size} B`, {
          ours: async () => {
            // Gigabytes of the larger ones would be a load in themselves.
            await service.client.query('TRUNCATE events');
            await service.client.query('CHECKPOINT');
            return measure({ ...job, url: service.url('events') }, service.pid);
          },
          bare: () => measure({ ...job, url: `http://127.0.0.1:${bare.output.trim()}/` }, bare.pid),
        });
        const of = (pick: (turn: (typeof turns)[number]) => number, digits = 0) =>
          median(turns.map(pick)).toFixed(digits);
        const perMB = text.length / 1e6;
        lines.push([
          text.length,
          of((r) => r.ours.perSecond),
          of((r) => r.ours.perSecond * perMB),
          of((r) => r.bare.perSecond),
          of((r) => r.bare.perSecond * perMB),
          spread(turns.map((r) => r.ours.perSecond / r.bare.perSecond)),
          `${of((r) => r.ours.p50, 1)} / ${of((r) => r.ours.p99, 1)}`,
          `${of((r) => r.ours.nodeCpuUs)} / ${of((r) => r.ours.engineCpuUs)}`,
          of((r) => r.bare.nodeCpuUs),
          of((r) => r.ours.rssMiB),
        ]);
      }
      const head = [
        'body, B',
        'Headgate, req/s',
        'MB/s',
        'bare, req/s',
        'MB/s',
        'ratio (min–max)',
        'Headgate p50 / p99, ms',
        'CPU a request, µs: node / engine',
        'bare',
        'node, MiB',
      ];
      return `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. ${connections} connections.\n\n${table(head, lines)}`;
    } finally {
      await service.stop();
      await bare.stop();
    }
  },
};
