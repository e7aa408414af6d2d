/**
 * Signed webhooks of one `headgate start` into a table of its own PostgreSQL, and into the stand-in for RisingWave in front of the same
 * PostgreSQL (WITH (into = …)). The stand-in has no checkpoints here: this compares the paths, not the waits at their ends.
 */
import { Client } from 'pg';
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import { standInBeside } from './stand-in.ts';
import { body, check, secret, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const connectionCounts = [1, 64, 256] as const;
const columns = 'data JSONB';

export const into: Bench = {
  name: 'into',
  page: 'docs/operating/into-risingwave.md',
  run: async ({ rounds, seconds }) => {
    const engine = await startService();
    const stops: (() => Promise<unknown>)[] = [() => engine.stop()];
    try {
      const { plain, place } = await standInBeside(engine, stops);
      const service = await startService({
        database: 'plain',
        flags: [`--database-url=${plain}`, `--into-hosts=${place}`],
      });
      stops.push(() => service.stop());
      await service.client.query(
        `CREATE SECRET rw WITH (backend = 'meta') AS 'postgresql://root@${place}/dev'`,
      );
      await service.client.query(`CREATE SECRET s WITH (backend = 'meta') AS '${secret}'`);
      const options = `connector = 'webhook'`;
      await service.client.query(`CREATE TABLE pg (${columns}) WITH (${options}) ${check}`);
      await service.client.query(`CREATE TABLE rw (${columns}) WITH (${options}, into = 'rw') ${check}`);
      const there = new Client(`postgresql://root@${place}/dev`);
      await there.connect();
      await there.query(`CREATE TABLE rw (${columns})`);
      await there.end();
      const load = (name: string, connections: number) =>
        measure(
          { url: service.url(name), connections, seconds, headers: signedHeaders(body), bodies: [body] },
          service.pid,
          engine.enginePid,
        );
      const rows: string[][] = [];
      for (const connections of connectionCounts) {
        const turns = await inTurns(rounds, `${connections} connections`, {
          rw: () => load('rw', connections),
          pg: () => load('pg', connections),
        });
        const of = (name: 'rw' | 'pg') => ({
          rate: median(turns.map((turn) => turn[name].perSecond)).toFixed(0),
          cpu: median(turns.map((turn) => turn[name].nodeCpuUs)).toFixed(1),
        });
        const ratio = spread(turns.map(({ rw, pg }) => rw.perSecond / pg.perSecond));
        rows.push([
          `${connections}`,
          of('rw').rate,
          of('pg').rate,
          ratio,
          `${of('rw').cpu} / ${of('pg').cpu}`,
        ]);
      }
      return [
        `${stamp()}; Headgate, stand-in, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians, requests a second.`,
        '',
        table(
          [
            'connections',
            'into the stand-in',
            'into PostgreSQL',
            'ratio (min–max)',
            'CPU of Headgate a request, µs',
          ],
          rows,
          0,
        ),
      ].join('\n');
    } finally {
      for (const stop of stops.toReversed()) await stop();
    }
  },
};
