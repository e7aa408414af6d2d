/**
 * The events gateway inside `headgate start`: single events compared with the same ones as webhooks, NDJSON of 1,000
 * lines per request, and `SELECT 1` over /v1/sql compared with node-postgres through the SQL door.
 */
import { runJson, script } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import type { LoadResult } from './service.ts';
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
      const config = { host: '127.0.0.1', port: service.ports.sql.port, user: 'root', database: 'dev' };
      for (const connections of [1, 8]) {
        const turns = await inTurns(rounds, `SELECT 1, ${connections} connections`, {
          http: () => load(`${gateway}/v1/sql`, connections, 'SELECT 1'),
          pg: async () => {
            const job = { config, sql: 'SELECT 1', connections, seconds };
            const done = await runJson<LoadResult>(script('./pg-load.js'), job);
            return { ...done, perSecond: done.requests / done.seconds };
          },
        });
        const ratios = turns.map((turn) => turn.http.perSecond / turn.pg.perSecond);
        rows.push([
          `\`SELECT 1\`, ${connections} connections`,
          perSecond(turns.map((turn) => turn.http.perSecond)),
          `${perSecond(turns.map((turn) => turn.pg.perSecond))} node-postgres through the SQL door`,
          spread(ratios),
        ]);
      }
      const text = [
        `${stamp()}; server, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.`,
        '',
        table(['events gateway', 'rate', 'beside', 'ratio (min–max)'], rows, 1),
      ].join('\n');
      return { text, reached: { events: Math.min(...single) } };
    } finally {
      await service.stop();
    }
  },
};

const perSecond = (rates: readonly number[]): string => `${median(rates).toFixed(0)}/s`;
