/** `SELECT 1` over /v1/sql, which takes a session and resets it for each request, compared with node-postgres through the SQL port. */
import { runJson, script } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import type { LoadResult } from './service.ts';
import { median } from './statistics.ts';

export const sql: Bench = {
  name: 'sql',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    try {
      const url = `http://127.0.0.1:${service.ports.gateway?.port ?? 0}/v1/sql`;
      const config = { host: '127.0.0.1', port: service.ports.sql.port, user: 'root', database: 'dev' };
      const rows: (string | number)[][] = [];
      for (const connections of [1, 8, 64]) {
        const turns = await inTurns(rounds, `SELECT 1, ${connections} connections`, {
          http: () => measure({ url, connections, seconds, headers: {}, bodies: ['SELECT 1'] }, service.pid),
          pg: async () => {
            const job = { config, sql: 'SELECT 1', connections, seconds };
            const done = await runJson<LoadResult>(script('./pg-load.js'), job);
            return { ...done, perSecond: done.requests / done.seconds };
          },
        });
        rows.push([
          connections,
          median(turns.map((turn) => turn.http.perSecond)).toFixed(0),
          median(turns.map((turn) => turn.pg.perSecond)).toFixed(0),
          spread(turns.map((turn) => turn.http.perSecond / turn.pg.perSecond)),
        ]);
      }
      const head = ['connections', '/v1/sql, a second', 'node-postgres, SQL port', 'ratio (min–max)'];
      return `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.\n\n${table(head, rows)}`;
    } finally {
      await service.stop();
    }
  },
};
