/**
 * POST /v1/events of one `headgate gateway` into a PostgreSQL, and into the stand-in for RisingWave in front of the same PostgreSQL. The
 * stand-in has no checkpoints here: this compares the paths, not the waits at their ends.
 */
import { script, start } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import { standInBeside } from './stand-in.ts';
import { median } from './statistics.ts';

const columns = 'user_id VARCHAR, page VARCHAR, n INT, at TIMESTAMPTZ';
const event = (n: number): string =>
  `{"user_id":"user-${n % 1_000}","page":"/products/${n}?ref=newsletter","n":${n},"at":"2026-01-01T00:00:00Z"}`;
const linesMax = 1_000;
const lines = Array.from({ length: linesMax }, (_, n) => event(n)).join('\n');
const headers = { 'content-type': 'application/x-ndjson' };

export const risingwave: Bench = {
  name: 'risingwave',
  page: 'docs/operating/risingwave.md',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    const stops: (() => Promise<unknown>)[] = [() => service.stop()];
    try {
      const { plain, place } = await standInBeside(service, stops);
      const env = {
        EVENTS_API_PG_DSN: plain,
        EVENTS_API_RW_DSN: `postgresql://root@${place}/dev`,
      };
      const gateway = await start(
        [script('../src/app/cli.js'), 'gateway', '--gateway-port=0'],
        (text) => /http:\S+\/v1\/sql/.test(text),
        { env },
      );
      stops.push(() => gateway.stop());
      const url = /http:\S+(?=\/v1\/sql)/.exec(gateway.output)?.[0] ?? '';
      for (const database of ['pg', 'rw']) {
        const made = await fetch(`${url}/v1/sql?database=${database}`, {
          method: 'POST',
          body: `CREATE TABLE events (${columns})`,
        });
        if (!made.ok) throw new Error(await made.text());
      }
      const load = (database: string, connections: number, body: string) =>
        measure(
          {
            url: `${url}/v1/events?name=events&database=${database}`,
            connections,
            seconds,
            headers,
            bodies: [body],
          },
          gateway.pid,
          service.enginePid,
        );
      const rows: string[][] = [];
      const cases = [
        ['one event a request, 1 connection', 1, event(1), 1],
        ['one event a request, 64 connections', 64, event(1), 1],
        ['one event a request, 256 connections', 256, event(1), 1],
        [`${linesMax} lines a request, 4 connections`, 4, lines, linesMax],
      ] as const;
      for (const [what, connections, body, count] of cases) {
        const turns = await inTurns(rounds, what, {
          rw: () => load('rw', connections, body),
          pg: () => load('pg', connections, body),
        });
        const rate = (name: 'rw' | 'pg') =>
          `${(median(turns.map((turn) => turn[name].perSecond)) * count).toFixed(0)} rows/s`;
        const cpu = (name: 'rw' | 'pg') => median(turns.map((turn) => turn[name].nodeCpuUs)) / count;
        rows.push([
          what,
          rate('rw'),
          rate('pg'),
          spread(turns.map(({ rw, pg }) => rw.perSecond / pg.perSecond)),
          `${cpu('rw').toFixed(1)} / ${cpu('pg').toFixed(1)}`,
        ]);
      }
      return [
        `${stamp()}; gateway, stand-in, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.`,
        '',
        table(
          [
            '`POST /v1/events`',
            'into the stand-in',
            'into PostgreSQL',
            'ratio (min–max)',
            'CPU of the gateway a row, µs',
          ],
          rows,
          1,
        ),
      ].join('\n');
    } finally {
      for (const stop of stops.toReversed()) await stop();
    }
  },
};
