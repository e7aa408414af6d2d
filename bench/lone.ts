/**
 * One sender that waits for each answer: the time of a single signed request, compared with an INSERT of the same row into the same
 * engine with its COMMIT, prepared, through `pg` and the engine's Unix socket: as a transaction, and as a single statement. All
 * clients are separate processes. The bare server shows the share of HTTP.
 */
import { runJson, script, start } from './processes.ts';
import type { PgJob } from './pg-load.ts';
import type { RawJob } from './raw-load.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { measureAny, startService } from './service.ts';
import type { LoadResult } from './service.ts';
import { body, createSigned, secret, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

export const lone: Bench = {
  name: 'lone',
  run: async (effort) => {
    // Many short rounds: variations of the disk last longer than a request.
    const rounds = effort.rounds * 3;
    const seconds = Math.min(effort.seconds, 2);
    const bare = await start([script('./bare-server.js'), secret], (text) => text.includes('\n'));
    const service = await startService().catch(async (error: unknown) => {
      await bare.stop();
      throw error;
    });
    try {
      await createSigned(service.client, 'events');
      await service.client.query('CREATE TABLE inserted (data JSONB)');
      const post = (url: string, pid: number) => {
        const job: RawJob = { url, headers: signedHeaders(body), body, connections: 1, seconds, perSecond: null };
        return measureAny(pid, service.pid, () => runJson<LoadResult>(script('./raw-load.js'), job));
      }; // prettier-ignore
      const insert: PgJob = {
        config: service.engine,
        sql: 'INSERT INTO inserted (data) VALUES ($1)',
        values: [body],
        connections: 1,
        seconds,
      };
      const store = (job: PgJob) =>
        measureAny(service.pid, service.pid, () => runJson<LoadResult>(script('./pg-load.js'), job));
      const turns = await inTurns(rounds, 'one at a time', {
        ours: () => post(service.url('events'), service.pid),
        transaction: () => store({ ...insert, inTransaction: true }),
        insert: () => store(insert),
        bare: () => post(`http://127.0.0.1:${bare.output.trim()}/`, bare.pid),
      });
      const names = { ours: 'Headgate, 200 after COMMIT', transaction: 'BEGIN, INSERT, COMMIT through `pg`', insert: 'INSERT that commits by itself, through `pg`', bare: 'bare `node:http`, stores nothing' } as const; // prettier-ignore
      const lines = (['ours', 'transaction', 'insert', 'bare'] as const).map((name) => [
        names[name],
        spread(turns.map((turn) => turn[name].p50), 3),
        median(turns.map((turn) => turn[name].p99)).toFixed(2),
        name === 'transaction' ? '' : spread(turns.map((turn) => turn[name].p50 / turn.transaction.p50)),
        name === 'insert' ? '' : spread(turns.map((turn) => turn[name].p50 / turn.insert.p50)),
        `${name === 'insert' || name === 'transaction' ? '–' : median(turns.map((turn) => turn[name].nodeCpuUs)).toFixed(0)} / ${name === 'bare' ? '–' : median(turns.map((turn) => turn[name].engineCpuUs)).toFixed(0)}`,
      ]); // prettier-ignore
      const head = [
        'one at a time',
        'p50, ms (min–max)',
        'p99, ms',
        'p50 beside BEGIN, INSERT, COMMIT (min–max)',
        'p50 beside INSERT alone (min–max)',
        'CPU each, µs: program / engine',
      ];
      return {
        text: `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. Body ${body.length} bytes, one keep-alive connection.\n\n${table(head, lines, 1)}`,
        reached: {
          lone: median(turns.map((turn) => turn.ours.p50 / turn.transaction.p50)),
          loneAlone: median(turns.map((turn) => turn.ours.p50 / turn.insert.p50)),
        },
      };
    } finally {
      await service.stop();
      await bare.stop();
    }
  },
};
