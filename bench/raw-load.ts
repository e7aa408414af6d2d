/**
 * A load generator on raw sockets, in a process of its own: reads a RawJob on stdin, prints one JSON line at the end,
 * and before that one per interval if intervals are requested.
 *
 * With `perSecond` it is an open loop: requests are due at regular intervals whether or not earlier ones were answered,
 * are sent on any free connection, and their latency counts from when they were due. A delay at a slow moment is thus
 * included in the percentiles (no coordinated omission), as is up to a millisecond of this process's own timer.
 * Otherwise each connection sends its next request after its last answer.
 */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';
import type { LoadResult } from './service.ts';
import { Latencies } from './statistics.ts';

export interface RawJob {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  readonly seconds: number;
  /** Uncounted load of the same kind before: it opens the connections and warms up this process's own code. */
  readonly warmUpSeconds?: number;
  /** null: as fast as answers come. */
  readonly perSecond: number | null;
  readonly intervalSeconds?: number;
}

export interface Interval extends LoadResult {
  /** Seconds from the start to the end of the interval. */
  readonly atSeconds: number;
}

/** Requests unanswered this long after the last one was sent count as not answered. */
const graceMs = 10_000;

type Answered = (connection: Connection, ok: boolean, dueAt: number) => void;

class Connection {
  readonly #target: URL;
  readonly #request: Buffer;
  readonly #answered: Answered;
  #socket: Socket;
  #text = '';
  #dueAt: number | null = null;
  #closed = false;

  constructor(target: URL, request: Buffer, answered: Answered) {
    this.#target = target;
    this.#request = request;
    this.#answered = answered;
    this.#socket = this.#dial();
  }

  send(dueAt: number): void {
    this.#dueAt = dueAt;
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#closed = true;
    this.#socket.destroy();
  }

  #dial(): Socket {
    const socket = connect({ port: Number(this.#target.port), host: this.#target.hostname, noDelay: true });
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', () => undefined);
    socket.once('close', () => {
      if (this.#closed) return;
      this.#text = '';
      this.#socket = this.#dial();
      if (this.#dueAt !== null) this.#done(false);
    });
    return socket;
  }

  /** Every answer has a Content-Length, and none comes unrequested. */
  #read(chunk: Buffer): void {
    this.#text += chunk.toString('latin1');
    const head = this.#text.indexOf('\r\n\r\n');
    if (head < 0) return;
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#text)?.[1] ?? 0);
    if (this.#text.length < head + 4 + length) return;
    const ok = this.#text.startsWith('HTTP/1.1 200 ');
    this.#text = '';
    this.#done(ok);
  }

  #done(ok: boolean): void {
    const dueAt = this.#dueAt;
    this.#dueAt = null;
    if (dueAt !== null) this.#answered(this, ok, dueAt);
  }
}

class Tally {
  readonly #before = process.cpuUsage();
  readonly #latencies = new Latencies();
  #other = 0;

  add(ok: boolean, ms: number): void {
    if (ok) this.#latencies.add(ms);
    else this.#other += 1;
  }

  result(seconds: number): LoadResult {
    const { user, system } = process.cpuUsage(this.#before);
    return {
      requests: this.#latencies.count,
      other: this.#other,
      seconds,
      p50: this.#latencies.at(0.5),
      p99: this.#latencies.at(0.99),
      max: this.#latencies.maxMs,
      loadCpuSeconds: (user + system) / 1e6,
    };
  }

  clear(): void {
    this.#latencies.clear();
    this.#other = 0;
  }
}

async function rawLoad(job: RawJob, onInterval: (interval: Interval) => void): Promise<LoadResult> {
  const target = new URL(job.url);
  const all = { host: target.host, 'content-length': String(Buffer.byteLength(job.body)), ...job.headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`POST ${target.pathname} HTTP/1.1\r\n${lines.join('')}\r\n${job.body}`);
  const [total, part] = [new Tally(), new Tally()];
  const free: Connection[] = [];
  /** The due times of requests that found no free connection; read from `taken` on. */
  let waiting: number[] = [];
  let taken = 0;
  let underWay = 0;
  const startedAt = performance.now();
  const countedAt = startedAt + (job.warmUpSeconds ?? 0) * 1_000;
  const endAt = countedAt + job.seconds * 1_000;

  const answered: Answered = (connection, ok, dueAt) => {
    const now = performance.now();
    if (dueAt >= countedAt || !ok) {
      total.add(ok, now - dueAt);
      part.add(ok, now - dueAt);
    }
    underWay -= 1;
    if (job.perSecond === null && now < endAt) {
      underWay += 1;
      connection.send(now);
    } else if (taken < waiting.length) {
      underWay += 1;
      connection.send(waiting[taken++] ?? now);
    } else free.push(connection);
  };
  const connections = Array.from(
    { length: job.connections },
    () => new Connection(target, request, answered),
  );
  const dispatch = (dueAt: number): void => {
    const connection = free.pop();
    if (connection === undefined) waiting.push(dueAt);
    else {
      underWay += 1;
      connection.send(dueAt);
    }
  };
  free.push(...connections);
  if (job.perSecond === null) for (let i = 0; i < job.connections; i++) dispatch(performance.now());

  let sent = 0;
  let interval = 1;
  const { intervalSeconds } = job;
  for (;;) {
    const now = performance.now();
    if (intervalSeconds !== undefined && now >= countedAt + interval * intervalSeconds * 1_000) {
      onInterval({ ...part.result(intervalSeconds), atSeconds: interval * intervalSeconds });
      part.clear();
      interval += 1;
    }
    const { perSecond } = job;
    if (perSecond !== null) {
      const due = Math.floor(((Math.min(now, endAt) - startedAt) / 1_000) * perSecond);
      for (; sent < due; sent++) dispatch(startedAt + ((sent + 1) * 1_000) / perSecond);
      if (taken === waiting.length) {
        waiting = [];
        taken = 0;
      }
    }
    const over = now >= endAt && underWay === 0 && taken === waiting.length;
    if (over || now >= endAt + graceMs) break;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  for (const connection of connections) connection.close();
  const result = total.result(job.seconds);
  return { ...result, other: result.other + underWay + waiting.length - taken };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const say = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`);
  const job = JSON.parse(readFileSync(0, 'utf8')) as RawJob;
  say(await rawLoad(job, say));
}
