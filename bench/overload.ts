/**
 * More than a table can take: what it commits per second when its senders wait for their answers, and when ten times as
 * much arrives. A trigger slows the table, so that the load generator is not the limit.
 */
import { Agent, request } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { machine, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { startService } from './service.ts';
import { median } from './statistics.ts';

/** The time that the trigger takes for each row. */
const rowMs = 5;

interface Tally {
  readonly committed: number;
  readonly refused: number;
  /** Answers that are neither: 500, resets … */
  readonly other: number;
  /** How long refusals took, in ms. */
  readonly refusedMs: readonly number[];
  readonly committedMs: readonly number[];
}

class Senders {
  readonly #url: URL;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16_000 });

  constructor(url: string) {
    this.#url = new URL(url);
  }

  async one(tally: {
    committed: number;
    refused: number;
    other: number;
    refusedMs: number[];
    committedMs: number[];
  }) {
    const started = performance.now();
    const status = await new Promise<number>((resolve) => {
      const sent = request(this.#url, { method: 'POST', agent: this.#agent }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0));
        response.on('error', () => resolve(0));
      });
      sent.on('error', () => resolve(0));
      sent.end('{"a":1}');
    });
    const ms = performance.now() - started;
    if (status === 200) {
      tally.committed += 1;
      tally.committedMs.push(ms);
    } else if (status === 503) {
      tally.refused += 1;
      tally.refusedMs.push(ms);
    } else tally.other += 1;
    return status;
  }

  /** Each sender waits for its answer. */
  async closed(senders: number, seconds: number): Promise<Tally> {
    const tally = empty();
    const end = performance.now() + seconds * 1_000;
    await Promise.all(
      Array.from({ length: senders }, async () => {
        while (performance.now() < end) await this.one(tally);
      }),
    );
    return tally;
  }

  /** A number of requests per second, whatever becomes of them. */
  async open(perSecond: number, seconds: number): Promise<Tally> {
    const tally = empty();
    const started = performance.now();
    const running: Promise<number>[] = [];
    for (let sent = 0; sent < perSecond * seconds;) {
      const due = ((performance.now() - started) / 1_000) * perSecond;
      for (; sent < Math.min(due, perSecond * seconds); sent++) running.push(this.one(tally));
      await delay(2);
    }
    // A later answer does not count.
    const { committed } = tally;
    await Promise.all(running);
    return { ...tally, committed };
  }
}

function empty() {
  return {
    committed: 0,
    refused: 0,
    other: 0,
    refusedMs: [] as number[],
    committedMs: [] as number[],
  };
}

export const overload: Bench = {
  name: 'overload',
  page: 'docs/reliability.md',
  run: async ({ rounds, seconds: given }: Effort) => {
    // Long enough that a table's adaptation to the flood is only a part of it.
    const seconds = Math.max(given, 8);
    const service = await startService();
    try {
      await service.client.query(`
        create table slow (data jsonb) with (connector = 'webhook');
        create function slow() returns trigger language plpgsql as
          $$ begin perform pg_sleep(${rowMs / 1_000} * (select count(*) from fresh)); return null; end $$;
        create trigger slow after insert on slow referencing new table as fresh for each statement execute function slow()`);
      const senders = new Senders(service.url('slow'));
      await senders.closed(64, 1);
      const lines: (string | number)[][] = [];
      const ratios: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const peak = await senders.closed(256, seconds);
        const rate = peak.committed / seconds;
        const flood = await senders.open(rate * 10, seconds);
        const ended = performance.now();
        while ((await senders.one(empty())) !== 200);
        const recoveredMs = performance.now() - ended;
        const goodput = flood.committed / seconds;
        ratios.push(goodput / rate);
        lines.push([
          rate.toFixed(0),
          goodput.toFixed(0),
          `${((100 * goodput) / rate).toFixed(0)} %`,
          flood.refused,
          quantile(flood.refusedMs, 0.5).toFixed(0),
          quantile(flood.refusedMs, 0.99).toFixed(0),
          quantile(flood.committedMs, 0.99).toFixed(0),
          flood.other,
          recoveredMs.toFixed(0),
        ]);
      }
      const head = [
        'peak, rows/s',
        'goodput at 10×, rows/s',
        'of the peak',
        '503',
        '503 p50, ms',
        '503 p99, ms',
        '200 p99, ms',
        'other',
        'recovered after, ms',
      ];
      return `${machine()}; median ${(100 * median(ratios)).toFixed(0)} %\n\n${table(head, lines)}`;
    } finally {
      await service.stop();
    }
  },
};

function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}
