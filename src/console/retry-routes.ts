/**
 * "Retry all" of the console: `retry` and `retry-cancel` of its API. Takes requests whose Host and origin were checked; answers with the state of the
 * session's last retry. Refuses with `login_required`, `malformed_request` and `overloaded`. The work goes on in the background, as the session's role, by
 * way of headgate.retry_rejected() alone, which asks Headgate for the retries (catalog/functions/rejected.sql); reject/retries.ts runs them.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { rememberedOf } from '../kit/memoize.ts';
import type { RetryState, SqlTable } from './api.ts';
import { readObject, readRetry } from './body.ts';
import { writeJson } from './headers.ts';
import type { Asked, RequestSessions, SqlRunner } from './request-sessions.ts';
import type { KeptFilter } from './request-filter.ts';
import { countMatching, countRetried, retryBatch } from './retry-statements.ts';

export class RetryRoutes {
  readonly #requests: RequestSessions;
  /** The last retry of each session. */
  readonly #of = rememberedOf<SqlRunner, { last: RunningRetry | null }>(() => ({ last: null }));

  constructor(requests: RequestSessions) {
    this.#requests = requests;
  }

  /** One at a time for each session. */
  async begin({ request, response }: Asked): Promise<void> {
    const { runner, ended } = this.#requests.ofRole(request);
    const { filter, force } = readRetry(await readObject(request));
    const retries = this.#of(runner);
    if (retries.last?.state.kind === 'running')
      throw new Refused('overloaded', 'a retry is running already: wait for it, or cancel it');
    retries.last = new RunningRetry(runner, filter, force, ended);
    writeJson(response, 200, retries.last.state);
  }

  async state({ request, response }: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(request);
    writeJson(response, 200, this.#of(runner).last?.state ?? null);
  }

  async cancel({ request, response }: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(request);
    this.#of(runner).last?.cancel();
    writeJson(response, 200, {});
  }
}

/**
 * All refused requests that a filter matches and that are not stored yet, a number of them at a time, oldest first, up to the newest that existed at the
 * start: asks for their retries, waits until Headgate has tried them, and continues with the next. An error that stops it is recorded in its state. What was
 * tried before a cancellation stays tried.
 *
 *   running ──all tried──► done        running ──cancelled, or the session ended──► cancelled
 *   running ──a statement failed──► failed
 */
class RunningRetry {
  readonly #runner: SqlRunner;
  readonly #ended: AbortSignal;
  readonly #cancelling = new AbortController();
  #state: RetryState = { kind: 'running', total: 0, asked: 0, said: [], outcomes: [], error: null };

  /** `ended`: the session has. */
  constructor(runner: SqlRunner, filter: KeptFilter, force: boolean, ended: AbortSignal) {
    this.#runner = runner;
    this.#ended = ended;
    ended.addEventListener('abort', () => this.cancel(), { once: true });
    if (ended.aborted) this.cancel();
    void this.#work(filter, force);
  }

  get state(): RetryState {
    return this.#state;
  }

  cancel(): void {
    this.#cancelling.abort();
  }

  async #work(filter: KeptFilter, force: boolean): Promise<void> {
    try {
      await this.#all(filter, force);
      const kind = this.#cancelling.signal.aborted ? 'cancelled' : 'done';
      this.#state = { ...this.#state, kind };
    } catch (error) {
      const kind = this.#cancelling.signal.aborted ? 'cancelled' : 'failed';
      this.#state = { ...this.#state, kind, error: error instanceof Error ? error.message : String(error) };
    }
  }

  async #all(filter: KeptFilter, force: boolean): Promise<void> {
    const { signal } = this.#cancelling;
    const [[open = '0', stored = '0', newest = null] = []] = await this.#run(countMatching(filter));
    if (newest === null) return;
    const said: readonly WordCount[] = stored === '0' ? [] : [['stored already', Number(stored)]];
    this.#state = { ...this.#state, total: Math.min(Number(open), limits.consoleRetriesMax), said };
    for (let after = '0'; this.#state.asked < limits.consoleRetriesMax && !signal.aborted;) {
      const range = { after, last: newest };
      const sql = retryBatch(filter, range, force, limits.consoleRetryBatchMax);
      const batch = await this.#run(sql, true);
      const ids = batch.map(([id]) => id ?? '');
      after = ids.at(-1) ?? '';
      if (after === '') return;
      const words = batch.map(([, word]): WordCount => [word ?? '', 1]);
      const said = merged(this.#state.said, words);
      this.#state = { ...this.#state, asked: this.#state.asked + batch.length, said };
      await this.#tried(ids.filter((_, i) => words[i]?.[0].startsWith('waiting')));
    }
  }

  /** Until none of them waits, or it takes too long: the remaining ones still complete. `ids`: those that will be retried; others have outcomes of before. */
  async #tried(ids: readonly string[]): Promise<void> {
    const before = this.#state.outcomes;
    const { signal } = this.#cancelling;
    for (let look = 0; look < limits.consoleRetryLooksMax; look++) {
      await delay(limits.consoleRetryLookMs, undefined, { signal }).catch(() => undefined);
      const rows = await this.#run(countRetried(ids));
      const now = rows.map(([word, count]): WordCount => [word ?? '', Number(count)]);
      this.#state = { ...this.#state, outcomes: merged(before, now) };
      if (signal.aborted || !now.some(([word]) => word === 'waiting' || word === 'running')) return;
    }
  }

  /** `own`: names mean PostgreSQL's own objects, whatever others have created on the role's search_path. */
  async #run(sql: string, write = false): Promise<SqlTable['rows']> {
    const { tables } = await this.#runner.run({ sql, write, own: true }, this.#ended);
    return tables.at(-1)?.rows ?? [];
  }
}

type WordCount = RetryState['said'][number];

function merged(before: readonly WordCount[], more: readonly WordCount[]): readonly WordCount[] {
  const counts = new Map(before);
  for (const [word, count] of more) counts.set(word, (counts.get(word) ?? 0) + count);
  return [...counts];
}
