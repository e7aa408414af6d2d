/** /v1/events inside `headgate start`: single events compared with the same ones as webhooks, and NDJSON of 1,000 lines a request. */
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import { median } from './statistics.ts';

const columns = 'user_id TEXT, page TEXT, n INT, at TIMESTAMPTZ';
const event = (n: number): string =>
  `{"user_id":"user-${n % 1_000}","page":"/products/${n}?ref=newsletter","n":${n},"at":"2026-01-01T00:00:00Z"}`;
const linesMax = 1_000;
const lines = Array.from({ length: linesMax }, (_, n) => event(n)).join('\n');
const headers = { 'content-type': 'application/x-ndjson' };

export const events: Bench = {
  name: 'events',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    try {
      await service.client.query(`CREATE TABLE events (${columns})`);
      await service.client.query(`CREATE TABLE hooks (${columns}) WITH (connector = 'webhook')`);
      const gateway = `http://127.0.0.1:${service.ports.gateway?.port ?? 0}`;
      const load = (url: string, connections: number, body: string) =>
        measure({ url, connections, seconds, headers, bodies: [body] }, service.pid);
      const rows: string[][] = [];
      const single: number[] = [];
      for (const connections of [1, 64, 256]) {
        const turns = await inTurns(rounds, `single events, ${connections} connections`, {
          events: () => load(`${gateway}/v1/events?name=events`, connections, event(1)),
          webhooks: () => load(service.url('hooks'), connections, event(1)),
        });
        const ratios = turns.map((turn) => turn.events.perSecond / turn.webhooks.perSecond);
        single.push(median(ratios));
        const [ours, theirs] = [
          turns.map((turn) => turn.events.perSecond),
          turns.map((turn) => turn.webhooks.perSecond),
        ];
        rows.push([
          `one event a request, ${connections} connections`,
          perSecond(ours),
          `${perSecond(theirs)} webhooks into the same columns`,
          spread(ratios),
        ]);
      }
      const turns = await inTurns(rounds, 'NDJSON', {
        lines: async () => {
          await service.client.query('TRUNCATE events');
          return load(`${gateway}/v1/events?name=events`, 4, lines);
        },
      });
      const stored = turns.map((turn) => turn.lines.perSecond * linesMax);
      rows.push([
        `${linesMax} lines a request, 4 connections`,
        `${median(stored).toFixed(0)} rows/s`,
        '',
        '',
      ]);
      const text = [
        `${stamp()}; server, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.`,
        '',
        table(['/v1/events', 'rate', 'beside', 'ratio (min–max)'], rows, 1),
      ].join('\n');
      return { text, reached: { events: Math.min(...single) } };
    } finally {
      await service.stop();
    }
  },
};

const perSecond = (rates: readonly number[]): string => `${median(rates).toFixed(0)}/s`;
