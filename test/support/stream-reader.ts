/** A reader of GET /v1/events, event by event. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { within } from '../../src/kit/promises.ts';
import type { TestGateway } from './gateway.ts';

export interface Event {
  readonly id: string | null;
  readonly event: string | null;
  readonly data: string;
}

/** A stream that is read event by event. */
export class StreamReader {
  place = '';
  broken = false;
  readonly response: Response;
  readonly #abort: AbortController;
  readonly #lines: AsyncGenerator<string>;

  private constructor(response: Response, abort: AbortController) {
    this.response = response;
    this.#abort = abort;
    this.#lines = linesOf(response, () => (this.broken = true));
  }

  static async open(
    t: TestContext,
    gateway: TestGateway,
    query: string,
    headers: Record<string, string> = {},
  ): Promise<StreamReader> {
    const abort = new AbortController();
    t.after(() => abort.abort());
    const { signal } = abort;
    const response = await fetch(`${gateway.url}/v1/events?${query}`, { headers, signal });
    assert.equal(response.status, 200);
    const reader = new StreamReader(response, abort);
    await reader.#block();
    assert.match(reader.place, /^\d+\.\d+-\d+/);
    return reader;
  }

  /** The next event that has data; null: the stream has ended. */
  async next(): Promise<Event | null> {
    for (;;) {
      const block = await within(20_000, this.#block(), 'late' as const);
      assert.ok(block !== 'late', 'no event');
      if (block === null || block.data !== '') return block;
    }
  }

  async rows(count: number): Promise<Record<string, unknown>[]> {
    const rows: Record<string, unknown>[] = [];
    while (rows.length < count) {
      const event = await this.next();
      assert.ok(event !== null && event.event === null, `ended: ${event?.data}`);
      rows.push(JSON.parse(event.data) as Record<string, unknown>);
    }
    return rows;
  }

  /** All of them up to the one of this number. */
  async upTo(last: number): Promise<number[]> {
    const all: number[] = [];
    while (all.at(-1) !== last) all.push(...numbers(await this.rows(1)));
    return all;
  }

  leave(): void {
    this.#abort.abort();
  }

  async #block(): Promise<Event | null> {
    let [id, event, data]: [string | null, string | null, string] = [null, null, ''];
    for (;;) {
      const { value: line, done } = await this.#lines.next();
      if (done === true) return null;
      if (line === '') {
        this.place = id ?? this.place;
        return { id, event, data };
      }
      const [, name, value = ''] = /^([a-z]*): ?(.*)$/s.exec(line) ?? [];
      if (name === 'id') id = value;
      if (name === 'event') event = value;
      if (name === 'data') data += value;
    }
  }
}

async function* linesOf(response: Response, broke: () => void): AsyncGenerator<string> {
  let rest = '';
  const decoder = new TextDecoder();
  try {
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      const [first = '', ...others] = decoder.decode(bytes, { stream: true }).split('\n');
      rest += first;
      for (const next of others) {
        yield rest;
        rest = next;
      }
    }
  } catch {
    // The reader has left, or the gateway has cut it off.
    broke();
  }
}

/** The column `n`, in order. */
export const numbers = (rows: readonly Record<string, unknown>[]) =>
  rows.map(({ n }) => Number(n)).toSorted((a, b) => a - b);
