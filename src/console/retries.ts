/**
 * Retries all refused requests that a filter matches, in the background. Takes the session's runner and a filter; calls
 * `headgate.retry_rejected` as the role for a number of requests at a time, waits until Headgate has tried them, and
 * continues with the next, oldest first, up to the newest that existed at the start. Refuses nothing: an error that
 * stops it is recorded in its state. What was tried before a cancellation stays tried.
 *
 *   running ──all tried──► done        running ──cancelled, or the session ended──► cancelled
 *   running ──a statement failed──► failed
 */
import { setTimeout as delay } from 'node:timers/promises';
import { limits } from '../config/limits.ts';
import type { RetryState, SqlCall, SqlTable } from './api.ts';
import { countWaiting, retryBatch } from './request-statements.ts';
import type { KeptFilter } from './request-statements.ts';
import { countRetried } from './statements.ts';

type RunCall = (call: SqlCall) => Promise<SqlTable | undefined>;

export class RunningRetry {
  readonly #run: RunCall;
  readonly #filter: KeptFilter;
  readonly #force: boolean;
  readonly #cancelling: AbortController;
  #state: RetryState = { kind: 'running', total: 0, asked: 0, said: [], outcomes: [], error: null };

  /** `signal`: the session has ended. */
  constructor(run: RunCall, filter: KeptFilter, force: boolean, signal: AbortSignal) {
    this.#run = run;
    this.#filter = filter;
    this.#force = force;
    this.#cancelling = new AbortController();
    signal.addEventListener('abort', () => this.cancel(), { once: true });
    if (signal.aborted) this.cancel();
    void this.#work();
  }

  get state(): RetryState {
    return this.#state;
  }

  cancel(): void {
    this.#cancelling.abort();
  }

  async #work(): Promise<void> {
    try {
      await this.#all();
      const kind = this.#cancelling.signal.aborted ? 'cancelled' : 'done';
      this.#state = { ...this.#state, kind };
    } catch (error) {
      const kind = this.#cancelling.signal.aborted ? 'cancelled' : 'failed';
      this.#state = { ...this.#state, kind, error: error instanceof Error ? error.message : String(error) };
    }
  }

  async #all(): Promise<void> {
    const { signal } = this.#cancelling;
    const sum = await this.#ask(countWaiting(this.#filter));
    const [total = '0', newest = null] = sum?.rows[0] ?? [];
    if (newest === null) return;
    this.#state = { ...this.#state, total: Math.min(Number(total), limits.consoleRetriesMax) };
    for (let after = '0'; this.#state.asked < limits.consoleRetriesMax && !signal.aborted;) {
      const range = { after, last: newest };
      const sql = retryBatch(this.#filter, range, this.#force, limits.consoleRetryBatchMax);
      const batch = (await this.#run({ sql, write: true, own: true }))?.rows ?? [];
      const ids = batch.map(([id]) => id ?? '');
      after = ids.at(-1) ?? '';
      if (after === '') return;
      this.#asked(batch.map(([, said]) => said ?? ''));
      await this.#tried(ids);
    }
  }

  #asked(words: readonly string[]): void {
    const said = addedUp(this.#state.said, words);
    this.#state = { ...this.#state, asked: this.#state.asked + words.length, said };
  }

  /** Until none of them waits, or it takes too long: the remaining ones still complete. */
  async #tried(ids: readonly string[]): Promise<void> {
    const before = this.#state.outcomes;
    const { signal } = this.#cancelling;
    for (let look = 0; look < limits.consoleRetryLooksMax; look++) {
      await delay(limits.consoleRetryLookMs, undefined, { signal }).catch(() => undefined);
      const rows = (await this.#ask(countRetried(ids)))?.rows ?? [];
      const now = rows.map(([word, count]): readonly [string, number] => [word ?? '', Number(count)]);
      this.#state = { ...this.#state, outcomes: merged(before, now) };
      if (signal.aborted || !now.some(([word]) => word === 'waiting' || word === 'running')) return;
    }
  }

  #ask(sql: string): Promise<SqlTable | undefined> {
    return this.#run({ sql, write: false, own: true });
  }
}

type WordCounts = RetryState['said'];

function addedUp(before: WordCounts, words: readonly string[]): WordCounts {
  return merged(
    before,
    words.map((word): readonly [string, number] => [word, 1]),
  );
}

function merged(before: WordCounts, more: WordCounts): WordCounts {
  const counts = new Map(before);
  for (const [word, count] of more) counts.set(word, (counts.get(word) ?? 0) + count);
  return [...counts];
}
