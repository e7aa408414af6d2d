/**
 * How rows of one JSONB column without a key are stored: the documents unchanged, copied (document-copy.ts) if they are many.
 *
 * A few are stored by one prepared INSERT in one round trip, whose Sync commits it, which costs the engine less than a COPY with the statements around it. It keeps
 * what the COPY of a group keeps: the table is locked and checked before anything of it runs, and the number of the transaction is sent before
 * anything is locked. If it fails, the COPY is tried, so that a row is judged in the same words however many come with it; the INSERT's own
 * failure is told only if that of the COPY does not name a row.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import { askedFirstSql, isMeant, numberSql, runsNoCode } from './plan-lock.ts';
import { verdictOf, isForgotten } from './interpret-reply.ts';
import { toStatement } from './prepared-statements.ts';
import type { PreparedStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import { DocumentCopy } from './document-copy.ts';
import { RefusedDocuments } from './refused-documents.ts';
import type { CommitSession } from './session.ts';
import type { TriedGroup } from './row-at-fault.ts';
import type { StoreAttempt, Failed } from './engine-reply.ts';
import type { TransactionSettings } from './transaction-statements.ts';
import { executeMessages, documentCount, documentLength, flushMessage } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import { typeOids } from '../relations/shape.ts';

/** The members of one group, tried in one session. */
export class DocumentGroup implements TriedGroup {
  readonly siftsMax: number;
  readonly fruitlessMax: number;
  readonly #session: CommitSession;
  readonly #target: Target;
  readonly #first: string | null;
  /** As a rule true: the table runs no code and waits for the disk, no pooler is between, and the senders wait as long as all do. */
  readonly #isPrepared: boolean;
  /** Made when rows are copied. */
  #copying: DocumentCopy | null = null;
  /** Made when the engine has refused a row. */
  #refusing: RefusedDocuments | null = null;

  /** `first`: a statement before all others of the transaction; then nothing is prepared. */
  constructor(
    session: CommitSession,
    target: Target,
    limits: Pick<Limits, GroupLimit>,
    first: string | null = null,
  ) {
    this.siftsMax = limits.groupNamedRefusalsMax;
    this.fruitlessMax = limits.groupFruitlessMax;
    this.#session = session;
    this.#target = target;
    this.#first = first;
    // Citus takes no INSERT that begins with the question, and copies its rows to the other servers as well.
    const isHere = target.shape.distributedByCitus !== true;
    this.#isPrepared =
      first === null && isNoSetting(session.settings(target)) && runsNoCode(target) && isHere;
  }

  get #copy(): DocumentCopy {
    return (this.#copying ??= new DocumentCopy(this.#session, this.#target, this.#first, this.#isPrepared));
  }

  refuse(): null {
    return null;
  }

  /** As a rule the INSERT is all. */
  async store(some: readonly Rows[]): Promise<StoreAttempt> {
    const inserted = await this.#insert(some);
    if (inserted !== null && !isTriedAgain(inserted)) return inserted;
    const copied = await this.#copy.store(some);
    const isOne = some.length === 1 && some[0]?.count === 1;
    return isOne && copied.kind === 'failed' && inserted?.kind === 'failed'
      ? better(inserted, copied)
      : copied;
  }

  async storeEach(units: readonly (readonly Rows[])[]): Promise<readonly StoreAttempt[]> {
    const attempts: StoreAttempt[] = [];
    for (const unit of units) attempts.push(await this.store(unit));
    return attempts;
  }

  /** By one prepared INSERT; null: these are many, or the connection prepares nothing more: nothing was sent. */
  async #insert(some: readonly Rows[]): Promise<StoreAttempt | null> {
    if (!this.#isPrepared || !areFew(some)) return null;
    const few = fewRowsStatement(this.#target);
    const stored = await this.#session.storePrepared(few, fewRowsOpening, [fewRows(few, some)]);
    return stored === 'not worth it' ? null : stored;
  }

  stands(): Promise<Outcome | null> {
    return this.#copy.takesNoRows();
  }

  sift(members: readonly Rows[], failed: Failed): Promise<readonly (Rows | Outcome)[]> {
    return this.#refused.sift(members, failed);
  }

  explain(member: Rows, failed: Failed): Promise<Outcome> {
    return this.#refused.explain(member, failed);
  }

  get #refused(): RefusedDocuments {
    return (this.#refusing ??= new RefusedDocuments(this.#session, this.#target, this.#copy));
  }
}

type GroupLimit = 'groupNamedRefusalsMax' | 'groupFruitlessMax';

/** Whether the COPY may store, or describe better, rows that the prepared statement did not store. */
function isTriedAgain(attempt: StoreAttempt): boolean {
  if (attempt.kind !== 'failed') return false;
  // The COPY does not need a prepared statement that is gone.
  return isForgotten(attempt) || ['row', 'suspect', 'conflict'].includes(verdictOf(attempt));
}

/**
 * For a row that neither way stores: a COPY fails with the words that a group would get, but an engine that spreads its tables
 * over servers hides the cause there.
 */
function better(insert: Failed, copy: Failed): Failed {
  return verdictOf(copy) === 'suspect' ? insert : copy;
}

/** Nothing is set for the transaction: the session has the settings that it needs. */
function isNoSetting({ commit, timeoutMs }: TransactionSettings): boolean {
  return commit === 'as it is' && timeoutMs === null;
}

/** From some thirty rows on a COPY is cheaper; below that the INSERT wins less and less (decision 0226). */
const rowsMax = 12;
const bytesMax = 32 * 1024;

/** Whether these are few, and small enough to be copied into one parameter. */
function areFew(members: readonly Rows[]): boolean {
  let rows = 0;
  let bytes = 0;
  for (const member of members) {
    rows += member.count;
    bytes += member.bytes;
    if (rows > rowsMax || bytes > bytesMax) return false;
  }
  return true;
}

/**
 * Stores `$1` in a table of plain rows, in order. Its plan is made again, and the table checked, when the table changes; a question that is not true is
 * an error, and never fewer rows:
 *
 *   with asked as (select where <it is the table of the target>)
 *   insert into public.t (data) select unnest($1) from asked where <the name still means it> returning …
 */
const fewRowsStatement = rememberedOf((target: Target): PreparedStatement => {
  const column = quoteIdentifier(target.shape.columns[0]?.name ?? '');
  // A rule that the table has got would be an error, or lead elsewhere.
  const sql =
    `${askedFirstSql(target)} insert into ${relationName(target)} (${column}) select pg_catalog.unnest($1) from asked where ${isMeant(target)} returning ` +
    `(case when tableoid operator(pg_catalog.<>) ${target.oid}::pg_catalog.oid then 'elsewhere' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [jsonbArrayOid]);
});

function fewRows(statement: PreparedStatement, members: readonly Rows[]): StatementStep {
  return { statement, messages: (name = statement.name) => executeMessages(name, [documentsOf(members)]) };
}

/** pg_type.oid, fixed in every PostgreSQL. */
const jsonbArrayOid = 3807;

/** The documents of all rows of these requests, in order, as an array of jsonb in PostgreSQL's binary form. */
function documentsOf(members: readonly Rows[]): WireParameter {
  const all = members.flatMap(({ documents }) =>
    Array.from({ length: documentCount(documents) }, (_, i) => {
      const start = documents.spans?.[2 * i] ?? 0;
      return documents.bytes.subarray(start, start + documentLength(documents, i));
    }),
  );
  const value = Buffer.allocUnsafe(all.reduce((sum, { length }) => sum + 5 + length, 20));
  let at = 0;
  // Dimensions, whether there are NULLs, the type, the length, the first index.
  for (const head of [1, 0, typeOids.jsonb, all.length, 1]) at = value.writeInt32BE(head, at);
  for (const document of all) {
    at = value.writeInt32BE(1 + document.length, at);
    // jsonb's binary form is a version byte and the text.
    at = value.writeUInt8(1, at);
    at += document.copy(value, at);
  }
  return { format: 1, value };
}

const openingStatement = toStatement(`select ${numberSql}`, []);

const opening = [...executeMessages(openingStatement.name, []), flushMessage];

/** Precedes the statement, in the same write, which locks the table and checks it by itself: the number, which the engine sends at once (Flush). */
const fewRowsOpening: readonly StatementStep[] = [{ statement: openingStatement, messages: () => opening }];
