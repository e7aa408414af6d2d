/**
 * The rows of a table as they are committed, as long as the caller iterates. Takes where to begin, returns rows with their positions;
 * reconnects after the last known position when the connection or the gateway ends; throws HeadgateError for refusals of the gateway. Reads
 * on only on demand: the stream waits for a slow caller.
 */
import { fromJson } from './json.ts';
import { backoffMs, errorOf, HeadgateError, pauseOf, sleep } from './request.ts';
import type { RequestOptions } from './request.ts';

export interface Followed<Row> {
  readonly row: Row;
  /** Continuing from here repeats at most this row and those since the previous position: none with `batch: 1`. */
  readonly position: string;
}

/** Without any sign for this long a connection is dead: the gateway sends something every 15 s. */
const silenceMs = 45_000;
/** The size limit of one event, in characters; the gateway's are never larger. */
const eventCharsMax = 256 * 1024 * 1024;

interface Event {
  readonly id: string | null;
  readonly refused: boolean;
  readonly data: string | null;
}

export async function* follow<Row>(
  options: RequestOptions,
  pathAfter: (position: string | undefined) => string,
  after: string | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<Followed<Row>, void, undefined> {
  let position = after;
  let startedAt = Date.now();
  for (let failures = 1; ; failures++) {
    const attempt = new Attempt(options, pathAfter(position), signal);
    let error = noAnswer(options.url);
    let afterMs = 0;
    try {
      const response = await attempt.open();
      if (!response.ok) {
        error = errorOf(response, await response.text());
        afterMs = pauseOf(response);
      } else {
        for await (const event of attempt.events(response)) {
          if (event.refused) throw refusalOf(event.data ?? '');
          position = event.id ?? position;
          failures = 0;
          startedAt = Date.now();
          if (event.data !== null) yield { row: fromJson(event.data) as Row, position: position ?? '' };
        }
      }
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof HeadgateError) throw cause;
      error = noAnswer(options.url, cause);
    } finally {
      attempt.end();
    }
    if (!error.retryable || failures > options.retries || Date.now() - startedAt > options.retryMs)
      throw error;
    await sleep(Math.max(afterMs, backoffMs(failures + 1)), signal);
  }
}

/** One connection. */
class Attempt {
  readonly #options: RequestOptions;
  readonly #path: string;
  readonly #abort = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #leave = (): void => this.#abort.abort();

  constructor(options: RequestOptions, path: string, signal: AbortSignal | undefined) {
    this.#options = options;
    this.#path = path;
    this.#signal = signal;
    signal?.throwIfAborted();
    signal?.addEventListener('abort', this.#leave, { once: true });
  }

  open(): Promise<Response> {
    const { url, token, fetch } = this.#options;
    const headers = new Headers({ accept: 'text/event-stream' });
    if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
    return this.#inTime(fetch(`${url}${this.#path}`, { headers, signal: this.#abort.signal }));
  }

  async *events({ body }: Response): AsyncGenerator<Event, void, undefined> {
    if (body === null) return;
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { value, done } = await this.#inTime(reader.read());
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = blocks.pop() ?? '';
      if (rest.length > eventCharsMax) throw new Error('an event without an end');
      for (const block of blocks) yield eventOf(block);
    }
  }

  end(): void {
    this.#signal?.removeEventListener('abort', this.#leave);
    this.#abort.abort();
  }

  async #inTime<T>(work: Promise<T>): Promise<T> {
    const timer = setTimeout(this.#leave, silenceMs);
    try {
      return await work;
    } finally {
      clearTimeout(timer);
    }
  }
}

function eventOf(block: string): Event {
  let event: Event = { id: null, refused: false, data: null };
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) event = { ...event, id: line.slice(4) };
    else if (line.startsWith('data: ')) event = { ...event, data: line.slice(6) };
    else if (line === 'event: refused') event = { ...event, refused: true };
  }
  return event;
}

function refusalOf(text: string): HeadgateError {
  const { error = 'the stream was refused', code = 'unknown' } = JSON.parse(text) as Record<string, string>;
  return new HeadgateError(error, { status: 400, code });
}

function noAnswer(url: string, cause?: unknown): HeadgateError {
  return new HeadgateError(
    `the gateway at ${url} cannot be reached`,
    { status: 0, code: 'no_answer' },
    { cause },
  );
}
