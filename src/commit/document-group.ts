/**
 * How rows of one JSONB column without a key are stored: the documents unchanged, in one binary COPY. Statement, rows and end are sent in one
 * write: the protocol lets a client send CopyData before it has received CopyInResponse (after an error the backend discards stray CopyData and
 * CopyDone), so a group costs one round trip.
 *
 * A few are stored by one prepared INSERT in one round trip, which costs the engine less than a COPY with the statements around it. It keeps
 * what the COPY of a group keeps: the table is locked and checked before anything of it runs, and the number of the transaction is sent before
 * anything is locked. If it fails, the COPY is tried, so that a row is judged in the same words however many come with it; the INSERT's own
 * failure is told only if that of the COPY does not name a row.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Outcome, Rows, Group } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import type { Limits } from '../config/limits.ts';
import { askedFirstSql, numberSql, holdCodeSql, lockSql } from './lock-table.ts';
import { aborted, verdictOf, isForgotten, foundBy } from './interpret-reply.ts';
import { toStatement, isPlain } from './commit-connection.ts';
import type { PreparedStatement, StatementStep, SessionFacts } from './commit-connection.ts';
import { documentRefusal, forOwner } from './refusal-messages.ts';
import type { CommitSession } from './session.ts';
import type { TriedGroup } from './row-at-fault.ts';
import type { StoreAttempt, Failed } from './interpret-reply.ts';
import { holdPlainStep } from './table-statements.ts';
import type { TransactionSettings } from './table-statements.ts';
import {
  executeMessages,
  queryMessage,
  documentCount,
  documentLength,
  flushMessage,
  mergedBytes,
  Pieces,
} from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';
import { quoteIdentifier, relationName, quoteLiteral, stillNames } from '../kit/sql-text.ts';
import {
  isMeant,
  typeOids,
  cleanUpStatements,
  isMeantFirst,
  safePath,
  settingStatements,
} from './statements.ts';

interface GroupMessage extends Omit<GroupStatement, 'sql'> {
  readonly apart: boolean;
  readonly message: Buffer;
}

/** What is known of how the rows of one table are stored. */
class CopyPlan {
  statement: GroupMessage | null = null;
  ways: Ways | null = null;
}

const planOf = rememberedOf<Target, CopyPlan>(() => new CopyPlan());

/** The members of one group, tried in one session. */
export class DocumentGroup implements TriedGroup {
  readonly siftsMax: number;
  readonly fruitlessMax: number;
  readonly #session: CommitSession;
  readonly #target: Target;
  readonly #settings: TransactionSettings;
  readonly #statement: GroupMessage;
  /** null: nothing is prepared for this group. */
  readonly #ways: Ways | null;
  /** The first refusal checks whether the table is at fault. */
  #standing: Promise<Outcome | null> | null = null;

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
    this.#settings = session.settings(target);
    this.#statement = statementOf(session, target, this.#settings, first);
    // Citus takes no INSERT that begins with the question, and copies its rows to the other servers as well.
    const isHere = target.shape.distributedByCitus !== true;
    const isPrepared = first === null && hasOwn(this.#settings) && isPlain(target) && isHere;
    this.#ways = isPrepared ? waysOf(target, session) : null;
  }

  refuse(): null {
    return null;
  }

  async store(some: readonly Rows[]): Promise<StoreAttempt> {
    const inserted = await this.#insert(some);
    if (inserted !== null && !isTriedAgain(inserted)) return inserted;
    const copied = await this.#copy(some);
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

  /** null: rows of this group are not stored that way. */
  async #insert(some: readonly Rows[]): Promise<StoreAttempt | null> {
    if (this.#ways === null || !areFew(some)) return null;
    const { few } = this.#ways;
    const stored = await this.#session.storePrepared(few, fewRowsOpening, [fewRows(few, some)]);
    return stored === 'not worth it' ? null : stored;
  }

  async #copy(some: readonly Rows[]): Promise<StoreAttempt> {
    return (await this.#preparedCopy(some)) ?? this.#plainCopy(some);
  }

  /** null: rows of this group are not stored that way. */
  async #preparedCopy(some: readonly Rows[]): Promise<StoreAttempt | null> {
    if (this.#ways === null) return null;
    const { copy } = this.#ways;
    const rows: StatementStep = {
      statement: copy,
      messages: (name = copy.name) => [...executeMessages(name, []), ...copyMessages(some)],
    };
    const stored = await this.#session.storePrepared(copy, [holdPlainStep(this.#target)], [rows]);
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

  /** The member whose row the engine has named is refused; nobody is because of a table that is no longer this one. */
  async sift(members: readonly Rows[], failed: Failed): Promise<readonly (Rows | Outcome)[]> {
    const instead = await this.#instead(failed);
    if (instead !== null) return members.map(() => instead);
    const named = verdictOf(failed) === 'row' ? namedBy(failed, this.#target, members) : null;
    if (named === null) return members;
    const outcome = { ...refusedBy(failed), row: named.row };
    return members.map((rows, place) => (place === named.place ? outcome : rows));
  }

  async explain(member: Rows, failed: Failed): Promise<Outcome> {
    const instead = await this.#instead(failed);
    if (instead !== null) return instead;
    const named = verdictOf(failed) === 'row' ? namedBy(failed, this.#target, [member]) : null;
    return named === null ? refusedBy(failed) : { ...refusedBy(failed), row: named.row };
  }

  /** The outcome of all rows instead of a refusal of one. */
  async #instead(failed: Failed): Promise<Outcome | null> {
    if (failed.sqlstate === '23505' && (await this.#session.hasKey(this.#target)))
      return aborted(refusal('table_changed'));
    this.#standing ??= this.stands();
    return this.#standing;
  }

  stands(): Promise<Outcome | null> {
    const { facts, shared } = this.#session;
    const { sql, count, checks } = noRowsStatement(this.#target, this.#settings, facts, shared);
    return this.#session.takesNoRowsBy([queryMessage(sql), ...copyMessages([])], count, checks);
  }
}

type GroupLimit = 'groupNamedRefusalsMax' | 'groupFruitlessMax';

function refusedBy(failed: Failed) {
  return aborted(forOwner(documentRefusal(failed), failed));
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

function statementOf(
  session: CommitSession,
  target: Target,
  settings: TransactionSettings,
  first: string | null,
): GroupMessage {
  // Almost every group has the same settings: those of the connection.
  const usual = settings.timeoutMs === null && !session.shared && first === null;
  const known = usual ? planOf(target).statement : null;
  const { apart } = session.facts;
  if (known?.apart === apart) return known;
  const { sql, count, checks } = groupStatement(target, settings, session.facts, session.shared);
  const made =
    first === null
      ? { count, checks, apart, message: queryMessage(sql) }
      : {
          count: count + 1,
          checks: checks.map((it) => it + 1),
          apart,
          message: queryMessage(`${first}; ${sql}`),
        };
  if (usual) planOf(target).statement = made;
  return made;
}

/** The prepared statements for a table that runs no code. */
interface Ways {
  readonly apart: boolean;
  readonly few: PreparedStatement;
  readonly copy: PreparedStatement;
}

function waysOf(target: Target, { facts }: CommitSession): Ways {
  const plan = planOf(target);
  const known = plan.ways;
  if (known?.apart === facts.apart) return known;
  const made = {
    apart: facts.apart,
    few: fewRowsStatement(target),
    copy: toStatement(copySql(target, facts, true), []),
  };
  plan.ways = made;
  return made;
}

/** A connection of Headgate's own that has the settings that the group needs: nothing is set for its transaction. */
function hasOwn({ commit, timeoutMs }: TransactionSettings): boolean {
  return commit === 'as it is' && timeoutMs === null;
}

/** The member whose row the engine's CONTEXT names, and which of its rows it is. A name that only looks like the text must not blame another row. */
function namedBy(
  { where }: Failed,
  { table }: Target,
  members: readonly Rows[],
): { readonly place: number; readonly row: number } | null {
  const prefix = `COPY ${table}, line `;
  const context = where.split('\n').find((it) => it.startsWith(prefix));
  const line = Number(/^\d{1,9}/.exec(context?.slice(prefix.length) ?? '')?.[0] ?? 0);
  let before = 0;
  for (const [place, { count }] of members.entries()) {
    if (line > before && line <= before + count) return { place, row: line - before - 1 };
    before += count;
  }
  return null;
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

/** Stores `$1` in a table of plain rows, in order. Its plan is made again, and the table checked, when the table changes. */
function fewRowsStatement(target: Target): PreparedStatement {
  const column = quoteIdentifier(target.shape.columns[0]?.name ?? '');
  // A rule that the table has got would be an error, or lead elsewhere.
  const sql =
    `${askedFirstSql(target)} insert into ${relationName(target)} (${column}) select pg_catalog.unnest($1) from asked where ${isMeant(target)} returning ` +
    `(case when tableoid operator(pg_catalog.<>) ${target.oid}::pg_catalog.oid then 'elsewhere' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [jsonbArrayOid]);
}

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

/** Precedes the statement, which locks the table and checks it by itself: the number, which is sent at once. */
const fewRowsOpening: readonly StatementStep[] = [{ statement: openingStatement, messages: () => opening }];

/** COPY's binary signature, flags and extension length: https://www.postgresql.org/docs/current/sql-copy.html */
const copyHeader = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
const copyTrailer = Buffer.from([0xff, 0xff]);
const copyDone = Buffer.from([0x63, 0, 0, 0, 4]);
/** int16 field count, int32 field length, and jsonb's version byte. */
const rowHeaderBytes = 7;
const jsonbVersion = 1;

interface GroupStatement {
  readonly sql: string;
  /** How many statements it holds. */
  readonly count: number;
  /** Which of them check the table, and fail if it has changed, from 0. */
  readonly checks: readonly number[];
}

/** The statements of a group's transaction. */
export function groupStatement(
  target: Target,
  { commit, timeoutMs }: TransactionSettings,
  facts: SessionFacts,
  shared: boolean,
): GroupStatement {
  const { shape, code } = target;
  const relation = relationName(target);
  const set = (name: string, to: string) => `pg_catalog.set_config('${name}', ${quoteLiteral(to)}, true)`;
  const confirm = `select headgate.confirm(${quoteLiteral(relation)}, ${target.oid}, ${quoteLiteral(shape.version)}, ${code.owner})`;
  // A simple query of several statements is one transaction: it commits after the last of them. `confirm` comes
  // after COPY, so that no row commits into a table that was replaced under the same name.
  const before = [
    ...(shared ? [`select ${set('search_path', safePath)}`] : []),
    ...(commit === 'off' ? ['set local synchronous_commit = off'] : []),
    ...(commit === 'at least on' ? [settingStatements.durable] : []),
    ...(timeoutMs === null ? [] : [`set local statement_timeout = ${Math.ceil(timeoutMs)}`]),
  ];
  // Arrives with CopyInResponse, thus before the commit: the number to ask for if the answer to that is lost.
  const hold = isPlain(target)
    ? [lockSql(target), `${confirm}, ${numberSql}`]
    : [holdCodeSql(target, ['INSERT'])];
  const first = isMeantFirst(target);
  const copy = [...first, copySql(target, facts)];
  const looking = new Set([...hold, confirm, ...first]);
  const ending = commit === 'off' ? 'off' : facts.commit;
  // The code of the table sees the path of any client, and what it has set does not apply to COMMIT.
  const statements = isPlain(target)
    ? [...before, ...hold, ...copy, confirm]
    : [
        ...before,
        ...hold,
        `select ${set('search_path', facts.path)}`,
        ...copy,
        `select ${set('search_path', safePath)}, ${set('synchronous_commit', ending)}`,
        confirm,
        ...(shared ? cleanUpStatements(ending) : [`select ${set('search_path', facts.path)}`]),
      ];
  const checks = statements.flatMap((it, i) => (looking.has(it) ? [i] : []));
  return { sql: statements.join('; '), count: statements.length, checks };
}

/**
 * Rows that PostgreSQL writes into its log together share one position there, and readers of changes that are killed between them take
 * the rest as read (Debezium up to 3.6, and what embeds it). A condition that has to be evaluated for each row prevents that
 * (CopyFrom, src/backend/commands/copyfrom.c).
 *
 * `isHeld`: the transaction has locked the target by its number, so that only its schema can be renamed meanwhile. Where nobody else may do that, the
 * condition that is cheaper to parse is enough.
 */
export function copySql(target: Target, { apart }: Pick<SessionFacts, 'apart'>, isHeld = false): string {
  const column = quoteIdentifier(target.shape.columns[0]?.name ?? '');
  const copy = `copy ${relationName(target)} (${column}) from stdin (format binary)`;
  // Citus accepts no COPY with a WHERE into tables that it distributes.
  if (target.shape.distributedByCitus === true) return copy;
  const meant =
    isHeld && target.code.schemaTrusted ? stillNames(relationName(target), target.oid) : isMeant(target);
  return `${copy} where ${meant}${apart ? ` and pg_catalog.float8ge(pg_catalog.random(), '0')` : ''}`;
}

/** The same in a transaction that stays open, for no rows, to be rolled back. */
function noRowsStatement(...of: Parameters<typeof groupStatement>): GroupStatement {
  const { sql, count, checks } = groupStatement(...of);
  return {
    sql: `begin isolation level read committed; ${sql}`,
    count: count + 1,
    checks: checks.map((it) => it + 1),
  };
}

/** CopyData with all rows of the group, then CopyDone, as buffers to be written one after another. */
export function copyMessages(members: Group['members']): Buffer[] {
  let bytes = copyHeader.length + copyTrailer.length;
  let merged = 5 + bytes + copyDone.length;
  for (const { documents } of members) {
    for (let i = 0; i < documentCount(documents); i++) {
      const length = documentLength(documents, i);
      bytes += rowHeaderBytes + length;
      merged += rowHeaderBytes + mergedBytes(length);
    }
  }
  const out = new Pieces(merged);
  out.byte(0x64);
  out.int32(bytes + 4);
  out.copy(copyHeader);
  for (const { documents } of members) {
    for (let i = 0; i < documentCount(documents); i++) {
      const start = documents.spans?.[2 * i] ?? 0;
      const length = documentLength(documents, i);
      out.byte(0);
      out.byte(1);
      out.int32(length + 1);
      out.byte(jsonbVersion);
      out.document(documents.bytes, start, start + length);
    }
  }
  out.copy(copyTrailer);
  out.copy(copyDone);
  return out.end();
}
