/**
 * The cost of watching: the same Headgate with nobody watching and with three consoles that tail, in turns; another one
 * that does not count by the minute; and how long a page of a list takes with a million rows.
 */
import type { Client } from 'pg';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bench } from './report.ts';
import { inTurns, machine, spread, table } from './report.ts';
import { measure, startService } from './service.ts';
import type { Job, Measured, Service } from './service.ts';
import { body, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';
import { lastRows, listRefused, noFilter } from '../src/console/statements.ts';

const consoles = 3;
const many = 1_000_000;

interface Caller {
  readonly post: (path: string, body: unknown) => Promise<Response>;
  readonly headers: Record<string, string>;
  readonly url: string;
}

/** A session of the console, by a link obtained with the data directory's key. */
async function enter({ ports, engine }: Service): Promise<Caller> {
  const url = `http://127.0.0.1:${ports.admin.port}/console/api`;
  const ask = async (path: string, authorization: string, value: unknown): Promise<Response> =>
    fetch(`${url}/${path}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', 'x-headgate-console': '1' },
      body: JSON.stringify(value),
    });
  const key = (await readFile(join(engine.host, '../../console.key'), 'utf8')).trim();
  const { link } = (await (await ask('local', `Bearer ${key}`, { want: 'link' })).json()) as { link: string };
  const entered = await ask('login', '', { link: link.slice('#t='.length) });
  const { token } = (await entered.json()) as { token: string };
  const authorization = `Bearer ${token}`;
  return { url, headers: { authorization }, post: (path, value) => ask(path, authorization, value) };
}

/** Reads events until the run is over. */
async function tailing(service: Service, run: () => Promise<Measured>): Promise<Measured> {
  const ending = new AbortController();
  const { url, headers } = await enter(service);
  const reading = Array.from({ length: consoles }, async () => {
    try {
      const { body: stream } = await fetch(`${url}/tail`, { headers, signal: ending.signal });
      for await (const _ of stream ?? []);
    } catch {
      // Aborted.
    }
  });
  try {
    return await run();
  } finally {
    ending.abort();
    await Promise.all(reading);
  }
}

async function pagesOf(service: Service, client: Client): Promise<(string | number)[][]> {
  await client.query(`CREATE TABLE million (data JSONB) WITH (connector = 'webhook')`);
  await client.query(
    `INSERT INTO million SELECT jsonb_build_object('i', i) FROM generate_series(1, ${many}) i; ANALYZE million`,
  );
  await client.query(`INSERT INTO headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason,
      authenticated, remote_address, method, target, headers, headers_left_out, body, body_bytes)
    SELECT now(), 'million'::regclass, 'public', 'million', 'http', 422, 'payload_undecodable', 'no', true, '127.0.0.1', 'POST', '/', '{}', '{}', 'x', 1
    FROM generate_series(1, ${many}); ANALYZE headgate.rejected_requests`);
  const { post } = await enter(service);
  const lines: (string | number)[][] = [];
  const ofTable = { ...noFilter, schema: 'public', table: 'million' };
  for (const [what, sql] of [
    ['refused requests, the newest', listRefused(noFilter, '')],
    ['refused requests, a page in the middle', listRefused(noFilter, String(many / 2))],
    ['refused requests of one table, a page in the middle', listRefused(ofTable, String(many / 2))],
    ['the last 50 rows of a table', lastRows({ schema: 'public', table: 'million' })],
  ] as const) {
    const took: number[] = [];
    for (let i = 0; i < 40; i++) {
      const started = performance.now();
      const answer = await post('sql', { sql, write: false });
      await answer.arrayBuffer();
      if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
      took.push(performance.now() - started);
    }
    const sorted = took.toSorted((a, b) => a - b);
    lines.push([what, median(took).toFixed(1), (sorted.at(-3) ?? 0).toFixed(1)]);
  }
  return lines;
}

export const watching: Bench = {
  name: 'consoles',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    const uncounted = await startService({ flags: ['--rejected-rows-max=0'] });
    try {
      for (const { client } of [service, uncounted]) await createSigned(client, 'events');
      await createSigned(service.client, 'inspected');
      await service.client.query(`ALTER TABLE inspected SET (inspect = 'bodies')`);
      const job: Omit<Job, 'url'> = {
        connections: 64,
        seconds,
        headers: signedHeaders(body),
        bodies: [body],
      };
      const run = (of: Service, name = 'events') => measure({ ...job, url: of.url(name) }, of.pid);
      const turns = await inTurns(rounds, 'consoles', {
        nobody: () => run(service),
        three: () => tailing(service, () => run(service)),
        uncounted: () => run(uncounted),
        inspected: () => run(service, 'inspected'),
      });
      const lines = (['nobody', 'three', 'uncounted', 'inspected'] as const).map((name) => {
        const of = (pick: (turn: Measured) => number) => turns.map((it) => pick(it[name]));
        return [
          {
            nobody: 'nobody watches',
            three: 'three consoles watch',
            uncounted: 'nothing is counted by the minute',
            inspected: "nobody watches, inspect = 'bodies'",
          }[name],
          median(of((it) => it.perSecond)).toFixed(0),
          spread(turns.map((it) => it[name].perSecond / it.nobody.perSecond)),
          `${median(of((it) => it.p50)).toFixed(1)} / ${median(of((it) => it.p99)).toFixed(1)}`,
          spread(
            of((it) => it.nodeCpuUs),
            1,
          ),
        ];
      });
      const head = [
        '',
        'req/s',
        'ratio to nobody (min–max)',
        'p50 / p99, ms',
        'CPU of Headgate per request, µs',
      ];
      const paged = await pagesOf(service, service.client);
      const least = (name: 'nobody' | 'three') => Math.min(...turns.map((it) => it[name].nodeCpuUs));
      const text = [
        `Machine: ${machine()}. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.`,
        table(head, lines, 1),
        'A page of the console where a million rows are, from the question to the end of the answer, 40 times:',
        table(['page', 'median, ms', '95 % within, ms'], paged, 1),
      ].join('\n\n');
      const pages = Math.max(...paged.map((line) => Number(line.at(-1))));
      return { text, reached: { consoles: least('nobody') / least('three'), pages } };
    } finally {
      await service.stop();
      await uncounted.stop();
    }
  },
};
