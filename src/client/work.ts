/**
 * Workers on the rows of a table, by the lease of lease.ts. Takes a way to run SQL and a handler; resolves once it was asked to stop and what had begun has
 * ended; throws what the gateway refuses for good. Each row is handled at least once, by one worker at a time while the lease lasts.
 * Statements are for many rows where they can be: each one costs the gateway, which takes requests of senders at the same time.
 *
 *   claim ──► handler ──► done, with the next claim, or with its effect ─┐
 *     ▲          │  └─throws──► failed, later again                      ├──► claim
 *     │          └─lease lost──► its signal, nothing said                ┘
 *     └── nothing to do: a pause
 */
import { backoffS, leaseOn } from './lease.ts';
import type { Lease, LeaseColumns } from './lease.ts';
import { arrayText, ClaimPace, Effects, Marks, MarksWithClaims, Pause } from './lease-rows.ts';
import type { Execute } from './lease-rows.ts';
import { HeadgateError } from './request.ts';

export interface WorkOptions {
  /** How long a row is a worker's own before others may take it, in seconds; extended while the handler runs. Default 300. */
  readonly lease?: number;
  /** Rows at one time; default 10. */
  readonly concurrency?: number;
  /** Attempts for a row; then it is dead. Default 10. */
  readonly attempts?: number;
  /** The longest pause before the next attempt, in seconds; default 3600. */
  readonly backoffMax?: number;
  /** How long to wait if there is nothing to do, in ms; default 1000. */
  readonly idle?: number;
  readonly columns?: LeaseColumns;
  /** Ends the work: no row is claimed any more, and handlers run to their end. */
  readonly signal?: AbortSignal;
}

export interface Job {
  /** From 1. */
  readonly attempt: number;
  /** Aborted once the row is no longer this worker's: another one has it, or it is gone. */
  readonly signal: AbortSignal;
}

/**
 * What takes effect exactly once: a statement that reads from `done`, which has the row if it is done now and by this worker, and no row otherwise.
 * `INSERT INTO shipped SELECT id, $1 FROM done`
 */
export interface Effect {
  readonly sql: string;
  readonly params?: readonly unknown[];
}

export type Handler<Row> = (row: Row, job: Job) => Promise<Effect | void> | Effect | void;

/** `repeatable`: it may take effect twice. */
export type RunSql = (
  text: string,
  params: readonly unknown[],
  repeatable: boolean,
) => Promise<{ readonly rows: readonly object[]; readonly rowsAffected: number }>;

const errorCharsMax = 1_000;
/** Between two claims of few rows. */
const claimMs = 100;

/** `execute`: as `run`, a statement that may take effect twice. */
export async function work<Row>(
  run: RunSql,
  execute: Execute,
  table: string,
  handler: Handler<Row>,
  options: WorkOptions = {},
): Promise<void> {
  await new Worker(run, execute, leaseOn(table, options.columns), handler, options).work();
}

class Worker<Row> {
  readonly #run: RunSql;
  readonly #lease: Lease;
  readonly #handler: Handler<Row>;
  readonly #options: WorkOptions;
  readonly #concurrency: number;
  readonly #pause = new Pause();
  readonly #pace: ClaimPace;
  readonly #marks: MarksWithClaims;
  readonly #effects: Effects;
  readonly #running = new Set<Promise<void>>();
  /** Rows whose handler, or effect, has not ended. */
  #handling = 0;

  constructor(run: RunSql, execute: Execute, lease: Lease, handler: Handler<Row>, options: WorkOptions) {
    const { concurrency = 10 } = options;
    this.#run = run;
    this.#lease = lease;
    this.#handler = handler;
    this.#options = options;
    this.#concurrency = concurrency;
    this.#pace = new ClaimPace(concurrency, claimMs);
    const marks = new Marks((ids, attempt) => run(lease.doneAll, [arrayText(ids), attempt], true), isOfRow);
    this.#marks = new MarksWithClaims(marks, this.#pause.end);
    this.#effects = new Effects(execute, concurrency);
  }

  async work(): Promise<void> {
    const { idle = 1_000, signal } = this.#options;
    let failures = 0;
    let restUntilMs = -Infinity;
    const isOver = (): boolean => signal?.aborted === true;
    try {
      while (!isOver()) {
        const free = this.#concurrency - this.#handling;
        const restMs = this.#marks.areWaiting && failures === 0 ? 0 : restUntilMs - performance.now();
        const waitMs = free > 0 ? Math.max(this.#pace.earlyMs(free), restMs) : Infinity;
        if (waitMs > 0) {
          await this.#pause.wait(waitMs, signal);
          continue;
        }
        let rows: readonly object[] = [];
        try {
          rows = await this.#pace.claim(free, () => this.#claim(free));
          failures = 0;
        } catch (error) {
          // A claim whose answer was lost is one that nobody works on: its lease ends.
          if (!(error instanceof HeadgateError) || !error.retryable) throw error;
          failures += 1;
        }
        for (const row of rows) this.#begin(row);
        const restingMs = failures === 0 ? idle : 1_000 * backoffS(failures, 30);
        restUntilMs = rows.length > 0 ? -Infinity : performance.now() + restingMs;
      }
    } finally {
      this.#marks.end();
      await Promise.all(this.#running);
    }
  }

  async #claim(count: number): Promise<readonly object[]> {
    const { attempts = 10, lease: leaseS = 300 } = this.#options;
    const { claim, doneAndClaim } = this.#lease;
    const values = [count, leaseS, attempts];
    const { rows } = await this.#marks.claim(
      () => this.#run(claim, values, false),
      (ids, attempt) => this.#run(doneAndClaim, [...values, arrayText(ids), attempt], false),
      isOfRow,
    );
    return rows;
  }

  #begin(row: object): void {
    this.#handling += 1;
    let isHandling = true;
    const handled = (): void => {
      if (isHandling) this.#handling -= 1;
      isHandling = false;
      this.#pause.end();
    };
    const one = this.#handle(row, handled).finally(() => {
      handled();
      this.#running.delete(one);
    });
    this.#running.add(one);
  }

  /** One row, to its end. Never rejects: what cannot be said about it is said by the end of its lease. `handled`: it only waits for its mark. */
  async #handle(row: object, handled: () => void): Promise<void> {
    const { lease: leaseS = 300, backoffMax = 3_600 } = this.#options;
    const values = row as Readonly<Record<string, unknown>>;
    const id = values[this.#lease.id];
    const attempt = Number(values[this.#lease.attempts]);
    const lost = new AbortController();
    const extending = setInterval(
      () => {
        this.#run(this.#lease.extend, [id, attempt, leaseS], true).then(
          ({ rowsAffected }) => rowsAffected === 0 && lost.abort(),
          // Later once more, or the lease ends.
          () => undefined,
        );
      },
      (leaseS * 1_000) / 3,
    );
    try {
      const effect = await this.#handler(row as Row, { attempt, signal: lost.signal });
      if (lost.signal.aborted) return;
      if (effect === undefined) {
        handled();
        await this.#marks.add(id, attempt);
      } else {
        const { sql, params = [] } = effect;
        // Once the row is done, `done` has no row: repeated, it has no effect.
        await this.#effects.add(this.#lease.doneWith(sql, params.length + 1), [...params, id, attempt]);
      }
    } catch (error) {
      const why = (error instanceof Error ? error.message : String(error))
        .slice(0, errorCharsMax)
        .replaceAll('\0', '');
      const failed = [id, attempt, why, backoffS(attempt, backoffMax)];
      await this.#run(this.#lease.failed, failed, true).catch(() => undefined);
    } finally {
      clearInterval(extending);
    }
  }
}

/** Whether the same may be said of other rows, or asked for, after such an error. */
function isOfRow(error: unknown): boolean {
  return error instanceof HeadgateError && !error.retryable;
}
