/**
 * Readers of GET /v1/events, in a process of their own: each reads as fast as rows come, or a number of bytes per second, and
 * counts them; prints one JSON line.
 */
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

export interface StreamJob {
  readonly url: string;
  readonly seconds: number;
  /** For each reader: bytes per second; null: unlimited. */
  readonly readers: readonly (number | null)[];
}

export interface StreamResult {
  readonly rows: readonly number[];
}

const job = JSON.parse(readFileSync(0, 'utf8')) as StreamJob;
const ending = new AbortController();
const mark = Buffer.from('data: {');

async function read(bytesPerSecond: number | null): Promise<number> {
  let rows = 0;
  try {
    const response = await new Promise<AsyncIterable<Buffer>>((resolve, reject) =>
      get(job.url, { signal: ending.signal }, resolve).on('error', reject),
    );
    let rest = Buffer.alloc(0);
    for await (const piece of response) {
      const all = Buffer.concat([rest, piece]);
      let at = 0;
      for (let found = all.indexOf(mark); found >= 0; found = all.indexOf(mark, at)) {
        rows += 1;
        at = found + mark.length;
      }
      rest = all.subarray(Math.max(at, all.length - mark.length + 1));
      if (bytesPerSecond !== null)
        await pause((piece.length / bytesPerSecond) * 1_000, undefined, { signal: ending.signal });
    }
  } catch (error) {
    if (!ending.signal.aborted) throw error;
  }
  return rows;
}

setTimeout(() => ending.abort(), job.seconds * 1_000);
const rows = await Promise.all(job.readers.map(read));
process.stdout.write(JSON.stringify({ rows } satisfies StreamResult));
