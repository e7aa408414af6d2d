/**
 * Compares tables with the logs of their senders (WITH (reconcile = …)), in the background. Takes the engine and the databases that are served; gives
 * observations, rows of the tables, and headgate.gaps; refuses nothing.
 *
 * Of all Headgates of a database one works on a table at a time: it holds the table for `reconcileHoldS` after each of its statements. Over one
 * connection per database, which is open while there is work; without the option in any table this is one statement every few seconds.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Engine } from '../engine/engine.ts';
import type { Limits } from '../config/limits.ts';
import { DatabaseLoop } from '../kit/database-loop.ts';
import { connected, ownLogin } from '../keep/row-sessions.ts';
import type { RowSession } from '../keep/row-sessions.ts';
import * as sql from './statements.ts';
import type { TakenTable } from './statements.ts';
import { newHolder, Turn } from './table-comparison.ts';
import type { TurnLimits, TurnParts } from './table-comparison.ts';

interface Reconciled extends TurnParts {
  readonly engine: Pick<Engine, 'clientConfig' | 'unavailable'>;
  readonly limits: TurnLimits & Pick<Limits, 'keepStatementMs' | 'keepAnswerMs'>;
}

export class Reconciliation extends DatabaseLoop {
  readonly #parts: Omit<Reconciled, 'told'>;
  readonly #hasTables: (database: string) => boolean;

  /** `hasTables`: whether any table of a database has the option, as far as is known: nothing is asked if none has. */
  constructor(parts: Omit<Reconciled, 'told'>, hasTables: (database: string) => boolean) {
    super();
    this.#parts = parts;
    this.#hasTables = hasTables;
  }

  override serve(database: string): void {
    if (this.#parts.apis.size > 0) super.serve(database);
  }

  protected override async run(database: string, signal: AbortSignal): Promise<void> {
    const { engine, limits, observe } = this.#parts;
    const parts = { ...this.#parts, told: new Map<string, string>() };
    while (!signal.aborted) {
      // Only the signal makes this pause fail.
      await pause(limits.reconcileLookMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted || engine.unavailable !== null || !this.#hasTables(database)) continue;
      try {
        await reconcileOnce(database, parts, signal);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        if (!signal.aborted) observe({ kind: 'reconcile.failed', database, reason });
      }
    }
  }
}

/** Turns of all tables of a database that are due. Throws the engine's error. */
async function reconcileOnce(database: string, parts: Reconciled, signal: AbortSignal): Promise<void> {
  const { limits } = parts;
  const session = { ...parts, name: 'headgate reconcile' };
  await connected(database, ownLogin(parts, database), session, signal, async (own: RowSession) => {
    while (!signal.aborted) {
      const me = newHolder();
      const taken = await own.rows<TakenTable>(sql.take, [
        me,
        limits.reconcileHoldS,
        limits.reconcileTablesMax,
      ]);
      const turns = taken.map((table) => new Turn(database, table, me, own, parts, signal).run());
      const ended = await Promise.allSettled(turns);
      const failed = ended.find((it) => it.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
      if (taken.length < limits.reconcileTablesMax) return;
    }
  });
}
