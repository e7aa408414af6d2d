/**
 * The text that is sent in place of one with statements of Headgate's. Takes the text and the plans of these statements; returns the text in which each of
 * them is replaced, at once or after what has to happen before it is sent. Refuses as the plans do, and with 54000 (the statements are too long together).
 */
import type { Rewrite, Rewritten, SqlSession } from '../types/sql.ts';
import { limits } from '../config/limits.ts';
import { SqlFailure } from '../errors/refusals.ts';
import type { SqlError } from '../errors/refusals.ts';
import { StatementError } from './cursor.ts';
import { assemble } from './plan.ts';
import type { PlanText, StatementPlan } from './plan.ts';
import type { DdlContext } from './statement-context.ts';

/** One of Headgate's statements in a text. */
export interface OwnStatement {
  readonly plan: StatementPlan;
  /** How many statements precede it. */
  readonly index: number;
  /** After the semicolon that precedes it, its first token, and its own semicolon or the end of the text. */
  readonly after: number;
  readonly start: number;
  readonly until: number;
}

/** What has to happen before the statements are sent, and which of them are only known then. */
export function joined(
  sql: string,
  session: SqlSession,
  found: readonly OwnStatement[],
  deps: DdlContext,
): Exclude<Rewrite, { kind: 'error' }> {
  const needsCatalog = found.some(({ plan }) => plan.needsCatalog);
  const releases = found.flatMap(({ plan }) => plan.releases);
  const before = async (): Promise<void> => {
    if (needsCatalog) await deps.ensureCatalog(session.database);
    for (const database of releases) await deps.releaseDatabase(session, database);
  };
  if (!found.some(({ plan }) => plan.later)) return { ...replaced(sql, found), before };
  return {
    kind: 'deferred',
    prepare: async () => {
      await before();
      const finished: OwnStatement[] = [];
      let length = 0;
      for (const own of found) {
        const { later } = own.plan;
        const pieces = later ? await finish(later) : own.plan.pieces;
        if (later) length += lengthOf(pieces);
        if (length > limits.sqlStatementBytesMax) throw new SqlFailure(tooLong);
        finished.push({ ...own, plan: { ...own.plan, pieces } });
      }
      return { ...replaced(sql, finished), before: null };
    },
  };
}

export const severalTexts = 'Send them one after another, or in several texts.';
const tooLong: SqlError = {
  sqlstate: '54000',
  message: 'what the statements of this text show is too long together',
  hint: severalTexts,
};

function lengthOf(pieces: readonly PlanText[]): number {
  return pieces.reduce((sum, piece) => sum + (typeof piece === 'string' ? piece.length : 0), 0);
}

async function finish(later: NonNullable<StatementPlan['later']>): Promise<readonly PlanText[]> {
  try {
    return await later();
  } catch (error) {
    throw error instanceof StatementError ? new SqlFailure(sqlError(error)) : error;
  }
}

/**
 * Replaces Headgate's statements and leaves every other one as it was. The comments around Headgate's are dropped: one
 * may contain the key that the statement itself seals.
 */
function replaced(sql: string, found: readonly OwnStatement[]): Omit<Rewritten, 'before'> {
  const pieces: { piece: PlanText; anchor: number }[] = [];
  const tags: (string | null)[] = [];
  let last = 0;
  for (const { plan, index, after, start, until } of found) {
    pieces.push({ piece: { start: last, end: after }, anchor: last });
    for (const piece of plan.pieces) pieces.push({ piece, anchor: start });
    while (tags.length < index) tags.push(null);
    tags.push(plan.tag);
    last = until;
  }
  pieces.push({ piece: { start: last, end: sql.length }, anchor: last });
  return { kind: 'rewritten', ...assemble(sql, pieces), tags };
}

export function sqlError(error: StatementError): SqlError {
  return {
    sqlstate: error.sqlstate,
    message: error.message,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(error.at === null ? {} : { position: error.at + 1 }),
  };
}
