/**
 * Signed, durable single events into a webhook table beside the same requests to a bare node:http server that checks
 * the same signature and stores nothing.
 */
import { createHmac } from 'node:crypto';
import { median, script, start } from './processes.ts';
import type { Bench } from './report.ts';
import { inTurns, machine, spread, table } from './report.ts';
import { measure, startService } from './service.ts';

const secret = 'It is a secret to everybody';
const connectionCounts = [1, 64, 256];

const body = JSON.stringify({
  action: 'opened',
  number: 4711,
  repository: { id: 1296269, full_name: 'octocat/Hello-World', private: false },
  sender: { login: 'octocat', id: 583231 },
  text: 'x'.repeat(40),
});
const headers = {
  'content-type': 'application/json',
  'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
};

export const singleEvents: Bench = {
  name: 'single-events',
  run: async ({ rounds, seconds }) => {
    const bare = await start([script('./bare-server.js'), secret], (text) => text.includes('\n'));
    const service = await startService();
    try {
      await service.client.query(`
        CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
        CREATE TABLE events (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
          secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
      const lines: (string | number)[][] = [];
      let stored = 0;
      for (const connections of connectionCounts) {
        const job = { connections, seconds, headers, bodies: [body] };
        const measured = await inTurns(rounds, `${connections} connections`, {
          ours: () => measure({ ...job, url: service.url('events') }, service.pid),
          bare: () => measure({ ...job, url: `http://127.0.0.1:${bare.output.trim()}/` }, bare.pid),
        });
        stored += measured.reduce((sum, { ours }) => sum + ours.requests, 0);
        const of = (pick: (round: (typeof measured)[number]) => number, digits = 0) =>
          median(measured.map(pick)).toFixed(digits);
        lines.push([
          connections,
          of((r) => r.ours.perSecond),
          of((r) => r.bare.perSecond),
          spread(measured.map((r) => r.ours.perSecond / r.bare.perSecond)),
          `${of((r) => r.ours.p50, 1)} / ${of((r) => r.ours.p99, 1)}`,
          `${of((r) => r.bare.p50, 1)} / ${of((r) => r.bare.p99, 1)}`,
          `${of((r) => r.ours.nodeCpuUs)} + ${of((r) => r.ours.engineCpuUs)}`,
          of((r) => r.bare.nodeCpuUs),
          of((r) => r.ours.rssMiB),
        ]);
      }
      const { rows } = await service.client.query<{ n: string }>('select count(*) as n from events');
      // autocannon stops without reading its last answers: those rows are stored and not counted.
      if (Number(rows[0]?.n) < stored) throw new Error(`${stored} answered 200, only ${rows[0]?.n} stored`);
      return [
        `Machine: ${machine()}; server, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. Body ${body.length} bytes.`,
        '',
        table(
          [
            'connections',
            'Headgate, req/s',
            'bare, req/s',
            'ratio (min–max)',
            'Headgate p50 / p99, ms',
            'bare p50 / p99, ms',
            'CPU per request: node + engine, µs',
            'bare CPU, µs',
            'node RSS, MiB',
          ],
          lines,
        ),
      ].join('\n');
    } finally {
      await service.stop();
      await bare.stop();
    }
  },
};
