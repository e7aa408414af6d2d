/**
 * The webhook listener compared with a bare `node:http` server that reads the body and answers the same bytes, under
 * the same load from a separate process. Rounds alternate, so that other activity on the machine affects both.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { runJson, script } from './processes.ts';
import { spread, table } from './report.ts';
import type { Job, LoadResult } from './service.ts';
import { median } from './statistics.ts';

const [roundsText = '5', secondsText = '4', connectionsText = '64', bytesText = '400'] =
  process.argv.slice(2);
const body = JSON.stringify({ text: 'x'.repeat(Math.max(0, Number(bytesText) - 11)) });

async function serve(kind: string) {
  const child = fork(fileURLToPath(new URL('./listen-server.js', import.meta.url)), [kind]);
  const [port] = (await once(child, 'message')) as [number];
  return { url: `http://127.0.0.1:${port}/webhook/dev/public/t`, stop: () => child.disconnect() };
}

async function load(url: string): Promise<{ rate: number; p99: number; failed: number }> {
  const job: Job = {
    url,
    connections: Number(connectionsText),
    seconds: Number(secondsText),
    headers: { 'content-type': 'application/json' },
    bodies: [body],
  };
  const { requests, seconds, p99, other } = await runJson<LoadResult>(script('./load.js'), job);
  return { rate: requests / seconds, p99, failed: other };
}

const bare = await serve('bare');
const listener = await serve('listener');
const rates = { bare: [] as number[], listener: [] as number[] };
for (let round = 0; round <= Number(roundsText); round++) {
  const one = await load(bare.url);
  const other = await load(listener.url);
  if (one.failed + other.failed > 0) throw new Error('a request failed');
  // The first round warms up both.
  if (round === 0) continue;
  rates.bare.push(one.rate);
  rates.listener.push(other.rate);
  console.error(`bare ${one.rate}/s p99 ${one.p99} ms, listener ${other.rate}/s p99 ${other.p99} ms`);
}
bare.stop();
listener.stop();
const ratios = rates.listener.map((rate, round) => rate / (rates.bare[round] ?? Number.NaN));
console.log(
  table(
    ['body, B', 'connections', 'bare, req/s', 'listener, req/s', 'ratio (min–max)'],
    [[bytesText, connectionsText, median(rates.bare).toFixed(0), median(rates.listener).toFixed(0), spread(ratios)]],
  ),
); // prettier-ignore
