/**
 * A load generator on raw sockets, in a process of its own: reads a RawJob on stdin, prints one JSON line.
 *
 * It is an open loop: requests are due at regular intervals whether or not earlier ones were answered, are sent on any free connection,
 * and their latency counts from when they were due. A delay at a slow moment is thus included in the percentiles (no
 * coordinated omission), as is up to a millisecond of this process's own timer.
 */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { LoadResult } from './service.ts';
import { Latencies } from './statistics.ts';

export interface RawJob {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  readonly seconds: number;
  readonly perSecond: number;
}

/** Uncounted load of the same kind before: it opens the connections and warms up this process's own code. */
const warmUpMs = 1_000;
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

async function rawLoad(job: RawJob): Promise<LoadResult> {
  const target = new URL(job.url);
  const all = { host: target.host, 'content-length': String(Buffer.byteLength(job.body)), ...job.headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`POST ${target.pathname} HTTP/1.1\r\n${lines.join('')}\r\n${job.body}`);
  const latencies = new Latencies();
  const before = process.cpuUsage();
  let other = 0;
  let underWay = 0;
  /** The due times of requests that found no free connection; read from `taken` on. */
  let waiting: number[] = [];
  let taken = 0;
  const startedAt = performance.now();
  const countedAt = startedAt + warmUpMs;
  const endAt = countedAt + job.seconds * 1_000;

  const answered: Answered = (connection, ok, dueAt) => {
    const now = performance.now();
    if (!ok) other += 1;
    else if (dueAt >= countedAt) latencies.add(now - dueAt);
    underWay -= 1;
    if (taken === waiting.length) free.push(connection);
    else {
      underWay += 1;
      connection.send(waiting[taken++] ?? now);
    }
  };
  const made = { length: job.connections };
  const connections = Array.from(made, () => new Connection(target, request, answered));
  const free = [...connections];
  for (let sent = 0; ;) {
    const now = performance.now();
    const due = Math.floor(((Math.min(now, endAt) - startedAt) / 1_000) * job.perSecond);
    for (; sent < due; sent++) {
      const dueAt = startedAt + ((sent + 1) * 1_000) / job.perSecond;
      const connection = free.pop();
      if (connection === undefined) waiting.push(dueAt);
      else {
        underWay += 1;
        connection.send(dueAt);
      }
    }
    if (taken === waiting.length) {
      waiting = [];
      taken = 0;
    }
    const over = now >= endAt && underWay === 0 && waiting.length === 0;
    if (over || now >= endAt + graceMs) break;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  for (const connection of connections) connection.close();
  const { user, system } = process.cpuUsage(before);
  const loadCpuSeconds = (user + system) / 1e6;
  const unanswered = underWay + waiting.length - taken;
  return { ...latencies.figures(), other: other + unanswered, seconds: job.seconds, loadCpuSeconds };
}

const job = JSON.parse(readFileSync(0, 'utf8')) as RawJob;
process.stdout.write(`${JSON.stringify(await rawLoad(job))}\n`);
