/** How rows of one JSONB column without a key are stored: the documents unchanged, in one binary COPY; a few by a prepared INSERT. */
import { rememberedOf } from '../kit/memoize.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import type { Limits } from '../config/limits.ts';
import { copyMessages, copySql, groupStatement, noRowsStatement } from './copy-message.ts';
import type { GroupStatement } from './copy-message.ts';
import { areFew, fewRows, fewRowsOpening, fewRowsStatement } from './few-rows.ts';
import { holdAndLook, isPlain, staysStatement } from './lock-table.ts';
import type { TableLock } from './lock-table.ts';
import { commitIsolating } from './copy-row-at-fault.ts';
import type { Judged, TriedCopy } from './copy-row-at-fault.ts';
import { aborted, outcomeOf, verdictOf } from './error-cause.ts';
import { toStatement } from './prepared.ts';
import type { PreparedStatement } from './prepared.ts';
import { documentRefusal, forOwner } from './refusal-messages.ts';
import type { Failed } from './round-trip.ts';
import type { CommitSession } from './session.ts';
import { conflictAttemptsMax, foundBy, isForgotten } from './interpret-reply.ts';
import type { StoreAttempt } from './interpret-reply.ts';
import type { TransactionSettings } from './table-statements.ts';
import { executeMessages, queryMessage } from './wire-message.ts';

interface CopyStatement extends GroupStatement {
  readonly apart: boolean;
  readonly message: Buffer;
}

/** What is known of how the rows of one table are stored. */
class CopyPlan {
  statement: CopyStatement | null = null;
  ways: Ways | null = null;
  /** The table, or the engine, accepts a COPY but not a prepared INSERT, for example because of a rule. It is not tried again for each group. */
  isOnlyCopied = false;
}

const planOf = rememberedOf<Target, CopyPlan>(() => new CopyPlan());

export async function commitDocuments(
  session: CommitSession,
  target: Target,
  members: readonly Rows[],
  limits: Pick<Limits, 'groupNamedRefusalsMax' | 'groupFruitlessMax'>,
): Promise<readonly Outcome[]> {
  return commitIsolating(new DocumentGroup(session, target, limits), members);
}

class DocumentGroup implements TriedCopy {
  readonly namedRefusalsMax: number;
  readonly fruitlessMax: number;
  readonly #session: CommitSession;
  readonly #target: Target;
  readonly #settings: TransactionSettings;
  readonly #statement: CopyStatement;
  /** null: nothing is prepared for this group. */
  readonly #ways: Ways | null;
  /** How often the group may still be tried again because the engine preferred others. */
  #conflictsLeft = conflictAttemptsMax - 1;
  /** The first refusal checks whether the table is at fault. */
  #standing: Promise<Outcome | null> | null = null;

  constructor(
    session: CommitSession,
    target: Target,
    limits: Pick<Limits, 'groupNamedRefusalsMax' | 'groupFruitlessMax'>,
  ) {
    this.namedRefusalsMax = limits.groupNamedRefusalsMax;
    this.fruitlessMax = limits.groupFruitlessMax;
    this.#session = session;
    this.#target = target;
    this.#settings = session.settings(target);
    this.#statement = statementOf(session, target, this.#settings);
    this.#ways = hasOwn(this.#settings) && isPlain(target) ? waysOf(target, session) : null;
  }

  lineOf(failed: Failed): number | null {
    return lineOf(failed, this.#target.table);
  }

  async attempt(some: readonly Rows[]): Promise<StoreAttempt> {
    const inserted = await this.#insert(some);
    if (inserted !== null && !isTriedAgain(inserted)) return inserted;
    const copied = await this.#copy(some);
    if (copied.kind === 'committed' && inserted !== null) planOf(this.#target).isOnlyCopied = true;
    if (copied.kind !== 'failed' || some.length > 1 || some[0]?.count !== 1) return copied;
    if (inserted?.kind === 'failed') return better(inserted, copied);
    // A row is not refused for an error of unknown cause that happened once.
    return verdictOf(copied) === 'suspect' ? this.#copy(some) : copied;
  }

  /** null: rows of this group are not stored that way. */
  async #insert(some: readonly Rows[]): Promise<StoreAttempt | null> {
    const { shape } = this.#target;
    // A server of Citus copies the rows of such a statement to the others as well.
    if (this.#ways === null || shape.distributedByCitus === true) return null;
    if (planOf(this.#target).isOnlyCopied || !areFew(some)) return null;
    const stored = await this.#session.storePrepared(fewRows(this.#ways.few, some), fewRowsOpening);
    return stored === 'not worth it' ? null : stored;
  }

  /** Repeated if the engine preferred others, as often as a group may be tried. */
  async #copy(some: readonly Rows[]): Promise<StoreAttempt> {
    for (;;) {
      const attempt = (await this.#preparedCopy(some)) ?? (await this.#plainCopy(some));
      const isConflict = attempt.kind === 'failed' && verdictOf(attempt) === 'conflict';
      if (!isConflict || this.#conflictsLeft <= 0) return attempt;
      this.#conflictsLeft -= 1;
    }
  }

  /** null: rows of this group are not stored that way. */
  async #preparedCopy(some: readonly Rows[]): Promise<StoreAttempt | null> {
    if (this.#ways === null) return null;
    const { copy, stays, group } = this.#ways;
    const look = executeMessages(stays.name, []);
    const messages = [...executeMessages(copy.name, []), ...copyMessages(some), ...look];
    const rows = { statement: copy, messages, count: 2, checks: [1] };
    const stored = await this.#session.storePrepared(rows, group);
    // The plain COPY needs no prepared statement.
    const isToCopy = stored === 'not worth it' || isGone(stored);
    return isToCopy ? null : stored;
  }

  async #plainCopy(some: readonly Rows[]): Promise<StoreAttempt> {
    const { message, count, checks } = this.#statement;
    const [reply] = await this.#session.send([message, ...copyMessages(some)], [count]);
    if (reply === undefined) return { kind: 'lost', reason: 'no answer' };
    return foundBy(reply, checks) ?? this.#session.settled(reply);
  }

  async judge(failed: Failed): Promise<Judged> {
    const outcome = outcomeOf(failed);
    const verdict = verdictOf(failed);
    if (outcome !== null) {
      const cut = verdict === 'conflict' || verdict === 'beyond';
      return { blame: cut ? 'elsewhere' : 'group', outcome };
    }
    if (failed.sqlstate === '23505' && (await this.#session.hasKey(this.#target)))
      return { blame: 'group', outcome: aborted(refusal('table_changed')) };
    this.#standing ??= this.stands();
    const standing = await this.#standing;
    if (standing !== null) return { blame: 'group', outcome: standing };
    return {
      blame: verdict === 'row' ? 'row' : 'suspect',
      outcome: aborted(forOwner(documentRefusal(failed), failed)),
    };
  }

  stands(): Promise<Outcome | null> {
    const { facts, shared } = this.#session;
    const { sql, count, checks } = noRowsStatement(this.#target, this.#settings, facts, shared);
    return this.#session.takesNoRowsBy([queryMessage(sql), ...copyMessages([])], count, checks);
  }
}

function isGone(attempt: StoreAttempt): boolean {
  return attempt.kind === 'failed' && isForgotten(attempt);
}

/** Whether the COPY may store, or describe better, rows that the prepared statement did not store. */
function isTriedAgain(attempt: StoreAttempt): boolean {
  if (attempt.kind !== 'failed') return false;
  // The COPY does not need a prepared statement that is gone.
  return isGone(attempt) || ['row', 'suspect', 'conflict'].includes(verdictOf(attempt));
}

/**
 * For a row that neither way stores: a COPY fails with the words that a group would get, but an engine that spreads its tables
 * over servers hides the cause there.
 */
function better(insert: Failed, copy: Failed): Failed {
  return verdictOf(copy) === 'suspect' ? insert : copy;
}

function statementOf(session: CommitSession, target: Target, settings: TransactionSettings): CopyStatement {
  // Almost every group has the same settings: those of the connection.
  const usual = settings.timeoutMs === null && !session.shared;
  const known = usual ? planOf(target).statement : null;
  const { apart } = session.facts;
  if (known?.apart === apart) return known;
  const statement = groupStatement(target, settings, session.facts, session.shared);
  const made = { ...statement, apart, message: queryMessage(statement.sql) };
  if (usual) planOf(target).statement = made;
  return made;
}

/** The prepared statements for a table that runs no code. */
interface Ways {
  readonly apart: boolean;
  readonly stays: PreparedStatement;
  readonly few: PreparedStatement;
  readonly copy: PreparedStatement;
  readonly group: TableLock;
}

function waysOf(target: Target, { facts }: CommitSession): Ways {
  const plan = planOf(target);
  const known = plan.ways;
  if (known?.apart === facts.apart) return known;
  const stays = staysStatement(target);
  const made = {
    apart: facts.apart,
    stays,
    few: fewRowsStatement(target),
    copy: toStatement(copySql(target, facts), []),
    group: holdAndLook(target, stays),
  };
  plan.ways = made;
  return made;
}

/** A connection of Headgate's own that has the settings that the group needs: nothing is set for its transaction. */
function hasOwn({ commit, timeoutMs }: TransactionSettings): boolean {
  return commit === 'as it is' && timeoutMs === null;
}

/** The row that the engine's CONTEXT names. A name that only looks like the text must not blame another row. */
function lineOf({ where }: Failed, table: string): number | null {
  const prefix = `COPY ${table}, line `;
  for (const context of where.split('\n')) {
    if (!context.startsWith(prefix)) continue;
    const digits = /^\d{1,9}/.exec(context.slice(prefix.length))?.[0];
    if (digits !== undefined) return Number(digits);
  }
  return null;
}
