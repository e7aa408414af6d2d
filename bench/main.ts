/**
 * `npm run bench`: signed, durable single events into a webhook table beside the same requests to a bare node:http
 * server that checks the same signature and stores nothing. Everything runs on this machine in one run, in turns, and
 * what counts is the ratio. `-- --write` puts the result into docs/benchmarks.md.
 */
import { createHmac } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, release, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { cpuOfDescendants, median, runJson, script, start, usageOf } from './processes.ts';

const secret = 'It is a secret to everybody';
const connectionCounts = [1, 64, 256];
const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);

interface LoadResult {
  readonly requests: number;
  readonly other: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

interface Measured extends LoadResult {
  readonly perSecond: number;
  readonly nodeCpuUs: number;
  readonly engineCpuUs: number;
  readonly rssMiB: number;
}

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

async function measure(url: string, connections: number, pid: number): Promise<Measured> {
  const before = usageOf(pid);
  const engineBefore = cpuOfDescendants(pid);
  const load = await runJson<LoadResult>(script('./load.js'), { url, connections, seconds, body, headers });
  if (load.other > 0) throw new Error(`${load.other} requests to ${url} were not answered 2xx`);
  const after = usageOf(pid);
  return {
    ...load,
    perSecond: load.requests / load.seconds,
    nodeCpuUs: ((after.cpuSeconds - before.cpuSeconds) * 1e6) / load.requests,
    engineCpuUs: ((cpuOfDescendants(pid) - engineBefore) * 1e6) / load.requests,
    rssMiB: after.rssBytes / 2 ** 20,
  };
}

async function run(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-'));
  const bare = await start([script('./bare-server.js'), secret], (text) => text.includes('\n'));
  const args = [
    `--data-dir=${dataDir}`,
    '--listen-host=127.0.0.1',
    '--listen-port=0',
    '--sql-port=0',
    '--gateway-port=0',
    '--admin-port=0',
  ];
  const headgate = await start([script('../src/cli.js'), 'start', ...args], (text) =>
    text.includes('SELECT * FROM'),
  );
  try {
    const ports = JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as {
      listen: { port: number };
      sql: { port: number };
    };
    const client = new Client({ host: '127.0.0.1', port: ports.sql.port, user: 'root', database: 'dev' });
    await client.connect();
    await client.query(`
      CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
      CREATE TABLE events (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
        secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
    const bareUrl = `http://127.0.0.1:${bare.output.trim()}/`;
    const ourUrl = `http://127.0.0.1:${ports.listen.port}/webhook/dev/public/events`;
    const lines: string[] = [];
    let stored = 0;
    for (const connections of connectionCounts) {
      const rows: { ours: Measured; bare: Measured }[] = [];
      // The first round warms both up and is not counted.
      for (let round = 0; round <= rounds; round++) {
        const ours = await measure(ourUrl, connections, headgate.pid);
        stored += ours.requests;
        const theirs = await measure(bareUrl, connections, bare.pid);
        if (round > 0) rows.push({ ours, bare: theirs });
        console.error(
          `${connections}: ours ${ours.perSecond.toFixed(0)}/s, bare ${theirs.perSecond.toFixed(0)}/s`,
        );
      }
      lines.push(row(connections, rows));
    }
    const { rows } = await client.query<{ n: string }>('select count(*) as n from events');
    // autocannon stops without reading its last answers: those rows are stored and not counted.
    if (Number(rows[0]?.n) < stored) throw new Error(`${stored} answered 200, only ${rows[0]?.n} stored`);
    await client.end();
    return report(lines);
  } finally {
    await headgate.stop();
    await bare.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

function row(connections: number, rounds: readonly { ours: Measured; bare: Measured }[]): string {
  const of = (pick: (r: { ours: Measured; bare: Measured }) => number, digits = 0) => {
    const values = rounds.map(pick);
    return median(values).toFixed(digits);
  };
  const ratios = rounds.map((r) => r.ours.perSecond / r.bare.perSecond);
  const spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`;
  return [
    '',
    connections,
    of((r) => r.ours.perSecond),
    of((r) => r.bare.perSecond),
    `**${median(ratios).toFixed(2)}** (${spread})`,
    `${of((r) => r.ours.p50, 1)} / ${of((r) => r.ours.p99, 1)}`,
    `${of((r) => r.bare.p50, 1)} / ${of((r) => r.bare.p99, 1)}`,
    `${of((r) => r.ours.nodeCpuUs)} + ${of((r) => r.ours.engineCpuUs)}`,
    of((r) => r.bare.nodeCpuUs),
    of((r) => r.ours.rssMiB),
    '',
  ]
    .join(' | ')
    .trim();
}

function report(lines: readonly string[]): string {
  const machine = `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), ${(totalmem() / 2 ** 30).toFixed(0)} GiB, Linux ${release()}, Node ${process.versions.node}`;
  return [
    `Machine: ${machine}; server, engine and load generator share it. ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. Body ${body.length} bytes.`,
    '',
    '| connections | Headgate, req/s | bare, req/s | ratio (min–max) | Headgate p50 / p99, ms | bare p50 / p99, ms | CPU per request: node + engine, µs | bare CPU, µs | node RSS, MiB |',
    '| --: | --: | --: | --: | --: | --: | --: | --: | --: |',
    ...lines,
    '',
  ].join('\n');
}

const text = await run();
process.stdout.write(`${text}\n`);
if (process.argv.includes('--write')) {
  const path = 'docs/benchmarks.md';
  const before = await readFile(path, 'utf8');
  const [start, end] = ['<!-- single-events:start -->', '<!-- single-events:end -->'];
  const head = before.slice(0, before.indexOf(start) + start.length);
  await writeFile(path, `${head}\n${text}${before.slice(before.indexOf(end))}`);
}
