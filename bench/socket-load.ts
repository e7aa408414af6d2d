/**
 * A load of WebSocket batches, in a process of its own: one connection with a constant number of batches in flight;
 * prints one JSON line.
 */
import { readFileSync } from 'node:fs';
import { WebSocket } from 'ws';
import { Latencies } from './statistics.ts';

export interface SocketJob {
  readonly url: string;
  readonly seconds: number;
  /** Items of a batch, as JSON; sent in turn. */
  readonly items: readonly string[];
  readonly perBatch: number;
  readonly underWay: number;
}

export interface SocketResult {
  readonly rows: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
}

const job = JSON.parse(readFileSync(0, 'utf8')) as SocketJob;
const { items, perBatch, underWay } = job;
/** Batches without their ids, made in advance so that this process is not what is measured. */
const bodies = Array.from({ length: Math.ceil(items.length / perBatch) }, (_, i) =>
  items
    .slice(i * perBatch, (i + 1) * perBatch)
    .map((item) => `{"op":"upsert","data":${item}}`)
    .join(','),
);
const ws = new WebSocket(job.url, { perMessageDeflate: false });
const sentAt = new Map<number, number>();
const latencies = new Latencies();
let started = 0;
let next = 1;
const send = () => {
  if (performance.now() - started > job.seconds * 1_000) return;
  sentAt.set(next, performance.now());
  ws.send(`{"dml_batch_id":${next},"items":[${bodies[next % bodies.length]}]}`);
  next += 1;
};
ws.on('open', () => {
  started = performance.now();
  ws.send(JSON.stringify({ type: 'init', timestamp: Date.now() }));
  for (let i = 0; i < underWay; i++) send();
});
ws.on('message', (data: Buffer) => {
  const text = data.toString();
  const id = Number(/^\{"ack":(\d+)\}$/.exec(text)?.[1]);
  if (Number.isNaN(id)) throw new Error(text);
  latencies.add(performance.now() - (sentAt.get(id) ?? Number.NaN));
  sentAt.delete(id);
  send();
  if (sentAt.size === 0) ws.close();
});
ws.on('close', () => {
  const seconds = (performance.now() - started) / 1_000;
  const { requests, p50, p99 } = latencies.figures();
  process.stdout.write(`${JSON.stringify({ rows: requests * perBatch, seconds, p50, p99 })}\n`);
});
