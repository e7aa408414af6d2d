/** How soon there is an answer from a new table, and from a program that has just been started. */
import { Agent, request } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { table } from './report.ts';
import { startIn, startService } from './service.ts';
import { body, check, createSigned, signedHeaders } from './signed.ts';
import { median, quantile } from './statistics.ts';

const headers = signedHeaders(body);

function post(url: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers, agent }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0));
    });
    sent.once('error', reject);
    sent.end(body);
  });
}

/** Sends until a request is accepted; returns the number of requests. */
async function accepted(url: string, agent: Agent): Promise<number> {
  const deadline = performance.now() + 10_000;
  for (let requests = 1; ; requests++) {
    const status = await post(url, agent);
    if (status === 200) return requests;
    if (performance.now() > deadline) throw new Error(`${url} answers ${status}`);
  }
}

const told = (times: readonly number[]) =>
  `${median(times).toFixed(1)} (${Math.min(...times).toFixed(1)}–${Math.max(...times).toFixed(1)})`;

export async function firstAnswers(tables = 50): Promise<string> {
  const service = await startService();
  const agent = new Agent({ keepAlive: true });
  try {
    await createSigned(service.client, 'warm');
    for (let i = 0; i < 200; i++) await accepted(service.url('warm'), agent);
    const [created, answered, requests]: [number[], number[], number[]] = [[], [], []];
    for (let i = 0; i < tables; i++) {
      const before = performance.now();
      await service.client.query(`CREATE TABLE first${i} (data JSONB) WITH (connector = 'webhook') ${check}`);
      const between = performance.now();
      requests.push(await accepted(service.url(`first${i}`), agent));
      created.push(between - before);
      answered.push(performance.now() - between);
    }
    const again = requests.filter((count) => count > 1).length;
    return `A new table, ${tables} times: CREATE TABLE ${told(created)} ms, and from its answer to that of the first accepted request ${told(answered)} ms, 90 % of them below ${quantile(answered, 0.9).toFixed(1)} ms; ${again === 0 ? 'the first request was accepted each time' : `${again} times a request before it was not`}.`;
  } finally {
    agent.destroy();
    await service.stop();
  }
}

export async function starts(first = 3, later = 5): Promise<string> {
  const agent = new Agent({ keepAlive: true });
  const times: Record<'first' | 'later', { doors: number[]; answered: number[] }> = {
    first: { doors: [], answered: [] },
    later: { doors: [], answered: [] },
  };
  for (let i = 0; i < first; i++) {
    const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-start-'));
    try {
      for (let start = 0; start <= (i === 0 ? later : 0); start++) {
        const before = performance.now();
        const service = await startIn(dataDir);
        try {
          const { doors, answered } = start === 0 ? times.first : times.later;
          doors.push(performance.now() - before);
          if (start === 0) await createSigned(service.client, 'events');
          await accepted(service.url('events'), agent);
          answered.push(performance.now() - before);
        } finally {
          await service.stop();
        }
      }
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  }
  agent.destroy();
  const line = (name: string, kind: 'first' | 'later') => [
    name,
    told(times[kind].doors),
    told(times[kind].answered),
  ];
  return table(
    ['start', 'to open doors, ms (min–max)', 'to the first 200, ms (min–max)'],
    [
      line('the first: a new data directory; CREATE SECRET and CREATE TABLE before the 200', 'first'),
      line('later ones', 'later'),
    ],
    1,
  );
}
