/**
 * The closed-loop load generator: wrk with one thread, which takes a few µs per request while Headgate and its engine take twenty.
 * Reads a job, prints one JSON line. Several paths and bodies are used in turn by the requests of all connections; `{n}` in the only body is a number that
 * no other request has.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Job } from './service.ts';

const job = JSON.parse(readFileSync(0, 'utf8')) as Job;

/** A Lua string of arbitrary characters. */
function quoted(text: string): string {
  const bytes = [...Buffer.from(text)];
  return `"${bytes.map((byte) => `\\${String(byte).padStart(3, '0')}`).join('')}"`;
}

const paths = job.paths ?? [new URL(job.url).pathname + new URL(job.url).search];
const [numbered = '', ...after] = job.bodies.length === 1 ? (job.bodies[0] ?? '').split('{n}') : [];
const listOf = (texts: readonly string[]) => `{${texts.map(quoted).join(',')}}`;
const script = `
  local paths, bodies = ${listOf(paths)}, ${listOf(job.bodies)}
  local headers = {${Object.entries(job.headers)
    .map(([name, value]) => `[${quoted(name)}]=${quoted(value)}`)
    .join(',')}}
  local requests, next = {}, 0
  function init()
    for i = 1, math.max(#paths, #bodies) do
      requests[i] = wrk.format("POST", paths[(i - 1) % #paths + 1], headers, bodies[(i - 1) % #bodies + 1])
    end
  end
  local first = os.time() * 1e6
  function request()
    next = next + 1
    ${
      after.length === 0
        ? 'return requests[(next - 1) % #requests + 1]'
        : `local body = ${quoted(numbered)} .. string.format('%.0f', first + next) .. ${quoted(after.join('{n}'))}
    return wrk.format("POST", paths[(next - 1) % #paths + 1], headers, body)`
    }
  end
  function done(summary, latency)
    local failed = summary.errors
    local other = failed.connect + failed.read + failed.write + failed.status + failed.timeout
    io.write(string.format('\\n{"requests":%d,"other":%d,"seconds":%f,"p50":%f,"p99":%f,"max":%f}\\n',
      summary.requests - failed.status, other, summary.duration / 1e6,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
  end
`;

const folder = mkdtempSync(join(tmpdir(), 'headgate-load-'));
try {
  const file = join(folder, 'load.lua');
  writeFileSync(file, script);
  const args = [
    '-t1',
    `-c${job.connections}`,
    `-d${Math.ceil(job.seconds)}s`,
    '-s',
    file,
    // A connection may wait longer for its first answer than wrk does by default.
    '--timeout',
    '30s',
    new URL(job.url).origin,
  ];
  // Finally the shell prints the CPU time of its children.
  const child = spawn('/bin/sh', ['-c', 'wrk "$@" && times', 'sh', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const code = await new Promise((resolve) => child.once('close', resolve));
  const result = /^\{.*\}$/m.exec(output)?.[0];
  if (code !== 0 || result === undefined)
    throw new Error(`wrk ended with ${String(code)}; it is Debian's package of that name`);
  const seconds = [...(output.trim().split('\n').at(-1) ?? '').matchAll(/(\d+)m([\d.]+)s/g)];
  const loadCpuSeconds = seconds.reduce((sum, [, m, s]) => sum + 60 * Number(m) + Number(s), 0);
  process.stdout.write(`${JSON.stringify({ ...(JSON.parse(result) as object), loadCpuSeconds })}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
