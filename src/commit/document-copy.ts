/**
 * How documents are copied into their one JSONB column, unchanged, by one binary COPY. Statement, rows and end are sent in one write: the protocol
 * lets a client send CopyData before it has received CopyInResponse (after an error the backend discards stray CopyData and CopyDone), so a
 * group costs one round trip.
 *
 * Takes the rows of a group; returns what became of them. Prepared where that is possible; else in one query, whose statements do before and
 * after the COPY what else the transaction needs.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Outcome, Rows, Group } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { isMeant, isMeantFirst, numberSql, runsNoCode, lockAndConfirmStep } from './plan-lock.ts';
import { holdCodeSql, lockSql } from './lock-table.ts';
import { isForgotten, foundBy, standing } from './interpret-reply.ts';
import type { StoreAttempt } from './engine-reply.ts';
import { toStatement } from './prepared-statements.ts';
import type { SessionFacts } from './commit-connection.ts';
import type { PreparedStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import { abortMessage } from './session.ts';
import { lost } from './engine-reply.ts';
import type { CommitSession } from './session.ts';
import type { TransactionSettings } from './transaction-statements.ts';
import {
  executeMessages,
  queryMessage,
  documentCount,
  documentLength,
  mergedBytes,
  Pieces,
} from './wire-message.ts';
import { quoteIdentifier, relationName, quoteLiteral, stillNames } from '../kit/sql-text.ts';
import { cleanUpStatements, safePath, settingStatements } from './transaction-statements.ts';

interface GroupMessage extends Omit<GroupStatement, 'sql'> {
  readonly apart: boolean;
  readonly message: Buffer;
}

/** What is known of how the rows of one table are copied. */
class CopyPlan {
  statement: GroupMessage | null = null;
  prepared: { readonly apart: boolean; readonly statement: PreparedStatement } | null = null;
}

const planOf = rememberedOf<Target, CopyPlan>(() => new CopyPlan());

/** The copies of one group, made in one session. */
export class DocumentCopy {
  readonly #session: CommitSession;
  readonly #target: Target;
  readonly #settings: TransactionSettings;
  readonly #first: string | null;
  readonly #isPrepared: boolean;

  /** `first`: a statement before all others of the transaction. `isPrepared`: whether the COPY may be prepared. */
  constructor(session: CommitSession, target: Target, first: string | null, isPrepared: boolean) {
    this.#session = session;
    this.#target = target;
    this.#settings = session.settings(target);
    this.#first = first;
    this.#isPrepared = isPrepared;
  }

  async store(some: readonly Rows[]): Promise<StoreAttempt> {
    return (await this.#prepared(some)) ?? this.#plain(some);
  }

  /** Stores no rows in the same way. null: the table takes rows; otherwise the outcome of rows that were made for it. */
  async takesNoRows(): Promise<Outcome | null> {
    const { facts, shared } = this.#session;
    const { sql, count, checks } = noRowsStatement(this.#target, this.#settings, facts, shared);
    const messages = [queryMessage(sql), ...copyMessages([]), abortMessage];
    const [reply = lost] = await this.#session.send(messages, [count, 1]);
    return standing(foundBy(reply, checks) ?? reply);
  }

  /** null: rows of this group are not stored that way. */
  async #prepared(some: readonly Rows[]): Promise<StoreAttempt | null> {
    if (!this.#isPrepared) return null;
    const statement = preparedOf(this.#target, this.#session.facts);
    const rows: StatementStep = {
      statement,
      messages: (name = statement.name) => [...executeMessages(name, []), ...copyMessages(some)],
    };
    const stored = await this.#session.storePrepared(statement, [lockAndConfirmStep(this.#target)], [rows]);
    // The plain COPY needs no prepared statement.
    const isPlainNext = stored === 'not worth it' || (stored.kind === 'failed' && isForgotten(stored));
    return isPlainNext ? null : stored;
  }

  async #plain(some: readonly Rows[]): Promise<StoreAttempt> {
    const { message, count, checks } = statementOf(this.#session, this.#target, this.#settings, this.#first);
    const [reply = lost] = await this.#session.send([message, ...copyMessages(some)], [count]);
    return foundBy(reply, checks) ?? this.#session.settled(reply);
  }
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

function preparedOf(target: Target, { apart }: SessionFacts): PreparedStatement {
  const plan = planOf(target);
  if (plan.prepared?.apart !== apart)
    plan.prepared = { apart, statement: toStatement(copySql(target, { apart }, true), []) };
  return plan.prepared.statement;
}

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
  const hold = runsNoCode(target)
    ? [lockSql(target), `${confirm}, ${numberSql}`]
    : [holdCodeSql(target, ['INSERT'])];
  const first = isMeantFirst(target);
  const copy = [...first, copySql(target, facts)];
  const looking = new Set([...hold, confirm, ...first]);
  const ending = commit === 'off' ? 'off' : facts.commit;
  // The code of the table sees the path of any client, and what it has set does not apply to COMMIT.
  const statements = runsNoCode(target)
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
