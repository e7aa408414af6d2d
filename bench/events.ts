/**
 * `node dist/bench/events.js`: the events gateway inside `headgate start`. Rows a second of NDJSON with 1,000 lines a
 * request; single events beside the same ones as webhooks; `SELECT 1` over /v1/sql beside the same through
 * node-postgres. Everything runs on this machine in one run, in turns. `--write` puts the result into
 * docs/benchmarks.md.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { cpuOfDescendants, median, runJson, script, start, usageOf } from './processes.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);

interface Load {
  readonly requests: number;
  readonly other: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
}

const event = (n: number): string =>
  `{"user_id":"user-${n % 1_000}","page":"/products/${n}?ref=newsletter","n":${n},"at":"2026-01-01T00:00:00Z"}`;
const batch = Array.from({ length: 1_000 }, (_, n) => event(n)).join('\n');
const columns = '(user_id TEXT, page TEXT, n INT, at TIMESTAMPTZ)';

interface Ports {
  readonly listen: { readonly port: number };
  readonly sql: { readonly port: number };
  readonly gateway: { readonly port: number };
}

const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-'));
const ports0 = ['--listen-port=0', '--sql-port=0', '--gateway-port=0', '--admin-port=0'];
const headgate = await start(
  [script('../src/cli.js'), 'start', `--data-dir=${dataDir}`, '--listen-host=127.0.0.1', ...ports0],
  (text) => text.includes('SELECT * FROM'),
);

async function load(
  url: string,
  connections: number,
  body: string,
): Promise<Load & { readonly cpuUs: string }> {
  const before = { node: usageOf(headgate.pid).cpuSeconds, engine: cpuOfDescendants(headgate.pid) };
  const headers = { 'content-type': 'application/x-ndjson' };
  const done = await runJson<Load>(script('./load.js'), { url, connections, seconds, body, headers });
  if (done.other > 0) throw new Error(`${done.other} requests to ${url} were not answered 2xx`);
  const each = (from: number, to: number) => (((to - from) * 1e6) / done.requests).toFixed(0);
  const cpuUs = `${each(before.node, usageOf(headgate.pid).cpuSeconds)} + ${each(before.engine, cpuOfDescendants(headgate.pid))}`;
  return { ...done, cpuUs };
}

const rate = (done: Load): number => done.requests / done.seconds;

/** Runs both in turns, once to warm up; gives the medians of what they gave. */
async function inTurns(
  name: string,
  ours: () => Promise<Load>,
  theirs: () => Promise<Load>,
): Promise<{ ours: number; theirs: number; ratio: number; p50: readonly [number, number] }> {
  const seen: { ours: Load; theirs: Load }[] = [];
  for (let round = 0; round <= rounds; round++) {
    const pair = { ours: await ours(), theirs: await theirs() };
    console.error(`${name}: ${rate(pair.ours).toFixed(0)}/s beside ${rate(pair.theirs).toFixed(0)}/s`);
    if (round > 0) seen.push(pair);
  }
  const of = (pick: (pair: { ours: Load; theirs: Load }) => number): number => median(seen.map(pick));
  return {
    ours: of((it) => rate(it.ours)),
    theirs: of((it) => rate(it.theirs)),
    ratio: of((it) => rate(it.ours) / rate(it.theirs)),
    p50: [of((it) => it.ours.p50), of((it) => it.theirs.p50)],
  };
}

async function run(): Promise<string> {
  const ports = JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as Ports;
  const client = new Client({ host: '127.0.0.1', port: ports.sql.port, user: 'root', database: 'dev' });
  await client.connect();
  await client.query(`CREATE TABLE events ${columns}`);
  await client.query(`CREATE TABLE hooks ${columns} WITH (connector = 'webhook')`);
  const { rows: sockets } = await client.query<{ dir: string }>(
    `select split_part(current_setting('unix_socket_directories'), ',', 1) as dir`,
  );
  const gateway = `http://127.0.0.1:${ports.gateway.port}`;
  const webhook = `http://127.0.0.1:${ports.listen.port}/webhook/dev/public/hooks`;
  const lines: string[] = [];
  for (const connections of [1, 64]) {
    const single = await inTurns(
      `single events, ${connections}`,
      () => load(`${gateway}/v1/events?name=events`, connections, event(1)),
      () => load(webhook, connections, event(1)),
    );
    lines.push(
      `| single events, ${connections} connections | ${single.ours.toFixed(0)}/s | webhooks into the same columns | ${single.theirs.toFixed(0)}/s | ${single.ratio.toFixed(2)} |`,
    );
  }
  const rates: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    await client.query('TRUNCATE events');
    const done = await load(`${gateway}/v1/events?name=events`, 4, batch);
    console.error(`NDJSON: ${(rate(done) * 1_000).toFixed(0)} rows/s, CPU per request ${done.cpuUs} µs`);
    if (round > 0) rates.push(rate(done) * 1_000);
  }
  lines.push(
    `| NDJSON, 1,000 lines a request, 4 connections | ${median(rates).toFixed(0)} rows/s | — | — | — |`,
  );
  const config = { host: '127.0.0.1', port: ports.sql.port, user: 'root', database: 'dev' };
  console.error(`engine socket ${sockets[0]?.dir ?? ''}`);
  for (const connections of [1, 8]) {
    const select = await inTurns(
      `SELECT 1, ${connections}`,
      () => load(`${gateway}/v1/sql`, connections, 'SELECT 1'),
      () => runJson<Load>(script('./pg-load.js'), { config, sql: 'SELECT 1', connections, seconds }),
    );
    lines.push(
      `| \`SELECT 1\`, ${connections} connections | ${select.ours.toFixed(0)}/s | node-postgres through the SQL door | ${select.theirs.toFixed(0)}/s | ${select.ratio.toFixed(2)} |`,
    );
  }
  await client.end();
  return ['| events gateway | | beside | | ratio |', '| --- | --: | --- | --: | --: |', ...lines, ''].join(
    '\n',
  );
}

try {
  const text = await run();
  process.stdout.write(`${text}\n`);
  if (process.argv.includes('--write')) {
    const path = 'docs/benchmarks.md';
    const before = await readFile(path, 'utf8');
    const [begin, end] = ['<!-- events:start -->', '<!-- events:end -->'];
    const head = before.slice(0, before.indexOf(begin) + begin.length);
    await writeFile(path, `${head}\n${text}${before.slice(before.indexOf(end))}`);
  }
} finally {
  await headgate.stop();
  await rm(dataDir, { recursive: true, force: true });
}
