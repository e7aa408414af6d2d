/**
 * Workers on the rows of a table, by the lease of lease.ts. Takes a way to run SQL and a handler; resolves once it was asked to stop and what had begun has
 * ended; throws what the gateway refuses for good. Each row is handled at least once, by one worker at a time while the lease lasts.
 * Statements are for many rows where they can be: each one costs the gateway, which takes requests of senders at the same time.
 *
 *   claim ──► handler ──► done (with its effect) ─┐
 *     ▲          │  └─throws──► failed, later again ├──► claim
 *     │          └─lease lost──► its signal, nothing said ┘
 *     └── nothing to do: a pause
 */
import { backoffS, leaseOn } from './lease.ts';
import type { Lease, LeaseColumns } from './lease.ts';
import { arrayText, ClaimPace, Marks } from './lease-rows.ts';
import { HeadgateError, sleep } from './request.ts';

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

export async function work<Row>(
  run: RunSql,
  table: string,
  handler: Handler<Row>,
  options: WorkOptions = {},
): Promise<void> {
  const { concurrency = 10, attempts = 10, lease: leaseS = 300, idle = 1_000, signal } = options;
  const lease = leaseOn(table, options.columns);
  const marks = new Marks(
    (ids, attempt) => run(lease.doneAll, [arrayText(ids), attempt], true),
    (error) => error instanceof HeadgateError && !error.retryable,
  );
  const running = new Set<Promise<void>>();
  const isOver = (): boolean => signal?.aborted === true;
  let failures = 0;
  const pace = new ClaimPace(concurrency, claimMs);
  try {
    while (!isOver()) {
      let rows: readonly object[] = [];
      const free = concurrency - running.size;
      const earlyMs = pace.earlyMs(free);
      if (free > 0 && earlyMs > 0) {
        await sleep(earlyMs, signal).catch(() => undefined);
        continue;
      }
      try {
        if (free > 0)
          rows = await pace.claim(
            free,
            async () => (await run(lease.claim, [free, leaseS, attempts], false)).rows,
          );
        failures = 0;
      } catch (error) {
        // A claim whose answer was lost is one that nobody works on: its lease ends.
        if (!(error instanceof HeadgateError) || !error.retryable) throw error;
        failures += 1;
      }
      for (const row of rows) {
        const one = handle(run, lease, marks, row, handler, options).finally(() => running.delete(one));
        running.add(one);
      }
      if (rows.length > 0) continue;
      const restMs = failures === 0 ? idle : 1_000 * backoffS(failures, 30);
      if (running.size < concurrency) await sleep(restMs, signal).catch(() => undefined);
      else await Promise.race(running);
    }
  } finally {
    await Promise.all(running);
  }
}

/** One row, to its end. Never rejects: what cannot be said about it is said by the end of its lease. */
async function handle<Row>(
  run: RunSql,
  lease: Lease,
  marks: Marks,
  row: object,
  handler: Handler<Row>,
  { lease: leaseS = 300, backoffMax = 3_600 }: WorkOptions,
): Promise<void> {
  const values = row as Readonly<Record<string, unknown>>;
  const attempt = Number(values[lease.attempts]);
  const mine = [values[lease.id], attempt];
  const lost = new AbortController();
  const extending = setInterval(
    () => {
      run(lease.extend, [...mine, leaseS], true).then(
        ({ rowsAffected }) => rowsAffected === 0 && lost.abort(),
        // Later once more, or the lease ends.
        () => undefined,
      );
    },
    (leaseS * 1_000) / 3,
  );
  try {
    const effect = await handler(row as Row, { attempt, signal: lost.signal });
    if (lost.signal.aborted) return;
    if (effect === undefined) await marks.add(values[lease.id], attempt);
    else {
      const { sql, params = [] } = effect;
      // Once the row is done, `done` has no row: repeated, it has no effect.
      await run(lease.doneWith(sql, params.length + 1), [...params, ...mine], true);
    }
  } catch (error) {
    const why = (error instanceof Error ? error.message : String(error))
      .slice(0, errorCharsMax)
      .replaceAll('\0', '');
    await run(lease.failed, [...mine, why, backoffS(attempt, backoffMax)], true).catch(() => undefined);
  } finally {
    clearInterval(extending);
  }
}
