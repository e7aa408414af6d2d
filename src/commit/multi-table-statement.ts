/**
 * How small groups of several tables are stored: one transaction in one write. Keeps what a group alone keeps. If it fails,
 * for whatever reason, each group is tried alone, and judged there.
 *
 * Rows of a table are stored by a statement of its own that the connection keeps; if it keeps enough already, the statement is parsed each time.
 *
 * It waits for whoever holds a table or a row (of a unique index) for `sharedLockMs` at most, so that two such transactions never wait
 * for each other in a circle.
 */
import { rememberedOf } from '../kit/memoize.ts';
import { zeroEnded } from '../kit/postgres-message.ts';
import type { Documents, Group, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import { typeOids } from '../relations/shape.ts';
import { askedFirstSql, isMeant, numberSql } from './plan-lock.ts';
import { toStatement } from './prepared-statements.ts';
import type { PreparedStatements, PreparedStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import { GroupSession, lendSession } from './group-session.ts';
import type { CommitContext, CommitSession } from './session.ts';
import { tellOutcomes } from './observed-groups.ts';
import { refusal } from '../errors/refusals.ts';
import { lost } from './engine-reply.ts';
import { storeStatement } from './statements.ts';
import { aborted, isForgotten, verdictOf } from './interpret-reply.ts';
import type { StoreAttempt } from './engine-reply.ts';
import {
  documentCount,
  documentLength,
  executeAll,
  executeMessages,
  flushMessage,
  mergedBytes,
  Pieces,
  syncMessage,
} from './wire-message.ts';

/** One outcome per member of each group, which is reported; null: nothing is stored, and each may go alone. The tables wait for the disk in the same way. */
export async function commitTogether(
  context: CommitContext,
  groups: readonly Group[],
): Promise<readonly (readonly Outcome[])[] | null> {
  const [first] = groups;
  if (first === undefined) return [];
  const { target } = first;
  const { pools, observe } = context;
  const lent = await lendSession(context, groups, target, pools.connectForMany(target.database));
  if (!(lent instanceof GroupSession)) return groups.map(({ members }) => members.map(() => lent));
  try {
    const kept = lent.isNameless ? null : pools.statementsForMany(lent.client);
    const attempt = await storeTogether(lent, groups, kept);
    // Code of a table that this was not meant for may have run.
    lent.isDoubtful = attempt.kind === 'failed' && verdictOf(attempt) === 'table';
    if (attempt.kind === 'failed' && lent.usable) return null;
    return groups.map((group) => {
      const outcomes = group.members.map((rows) => outcomeOf(attempt, rows));
      tellOutcomes(observe, group, outcomes, lent.seconds);
      return outcomes;
    });
  } finally {
    lent.giveBack();
  }
}

function outcomeOf({ kind }: StoreAttempt, { count }: Rows): Outcome {
  if (kind === 'committed') return { kind, rows: count };
  if (kind === 'failed') return aborted(refusal('engine_unavailable'));
  return { kind: 'unknown', refusal: refusal('commit_unknown') };
}

/**
 * Stores the rows of these groups, of each in order; all of them, or none. `kept`: where the connection keeps its statements for tables; null:
 * it keeps none.
 */
async function storeTogether(
  session: CommitSession,
  groups: readonly Group[],
  kept: PreparedStatements | null,
): Promise<StoreAttempt> {
  const statements = groups.map(({ target }) => rowsStatement(target));
  const fit = kept?.roomFor(statements, limits.sharedStatementsRestMin);
  const isKept = ({ target }: Group) => fit?.has(rowsStatement(target).name) === true;
  const own = groups.filter(isKept);
  const all = [rowsOf(own), ...groups.filter((group) => !isKept(group)).map(namelessRows)];
  const messages = [
    ...session.prepare([opening]),
    ...session.execute([opening]),
    // May wait for a lock on its table.
    ...(kept?.prepare(own.map(({ target }) => rowsStatement(target))) ?? []),
    ...all.flatMap((rows) => rows.messages),
    syncMessage,
  ];
  const count = all.reduce((sum, rows) => sum + rows.count, 1);
  const [reply = lost] = await session.send([Buffer.concat(messages)], [count]);
  for (const prepared of [session.prepared, kept]) {
    if (reply.kind === 'done') prepared?.succeeded();
    if (isForgotten(reply)) prepared?.forgotten();
  }
  return session.settled(reply);
}

/**
 * Stores rows in a table that runs no code, if it is the one that they are for: checked when the statement is planned, and once more
 * for each row. A rule would be an error anyway. Fails if it runs too late.
 */
const rowsStatement = rememberedOf((target: Target): PreparedStatement => {
  const { oid: id, shape } = target;
  const column = quoteIdentifier(shape.columns[0]?.name ?? '');
  const isWhole = shape.writeMode === 'documents';
  const insert = isWhole
    ? `insert into ${relationName(target)} (${column}) select $1 from asked where ${isMeant(target)}`
    : `${storeStatement(target)} and exists (select from asked)`;
  const late = `pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.now() operator(pg_catalog.>) '${2 * limits.sharedStatementMs} ms'::pg_catalog.interval`;
  const sql =
    `${askedFirstSql(target)} ${insert} returning (case when tableoid operator(pg_catalog.<>) ${id}::pg_catalog.oid then 'elsewhere' ` +
    `when ${late} then 'late' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [isWhole ? typeOids.jsonb : typeOids.json]);
});

/** The beginning of what binds a statement of one jsonb parameter: the bytes between the length and the parameter. */
function documentHead(statement: string): Buffer {
  // Of the unnamed portal; one format, binary; one parameter.
  return Buffer.concat([Buffer.from([0]), zeroEnded(statement), Buffer.from([0, 1, 0, 1, 0, 1])]);
}

/** Binds the statement of each head to one document after another, and executes it each time. */
function executeDocuments(all: readonly { readonly head: Buffer; readonly documents: Documents }[]): {
  readonly messages: Buffer[];
  readonly count: number;
} {
  const fixed = 1 + 4 + 4 + 1 + 2 + executeAll.length;
  let bytes = 0;
  let count = 0;
  for (const { head, documents } of all) {
    const of = documentCount(documents);
    count += of;
    bytes += of * (fixed + head.length);
    for (let i = 0; i < of; i++) bytes += mergedBytes(documentLength(documents, i));
  }
  const out = new Pieces(bytes);
  for (const { head, documents } of all)
    for (let i = 0; i < documentCount(documents); i++) {
      const { bytes: from, spans } = documents;
      const length = documentLength(documents, i);
      const start = spans?.[2 * i] ?? 0;
      out.byte(0x42);
      out.int32(4 + head.length + 4 + 1 + length + 2);
      out.copy(head);
      // jsonb's binary form is a version byte and the text.
      out.int32(1 + length);
      out.byte(1);
      out.document(from, start, start + length);
      out.int16(0);
      out.copy(executeAll);
    }
  return { messages: out.end(), count };
}

const headOf = rememberedOf((statement: PreparedStatement) => documentHead(statement.name));
const namelessHead = documentHead('');

interface Executed {
  readonly messages: readonly Buffer[];
  readonly count: number;
}

/** By statements that the connection keeps. */
function rowsOf(groups: readonly Group[]): Executed {
  const copied = groups.filter(storesWhole);
  const typed = groups.filter((group) => !storesWhole(group));
  const plain = executeDocuments(
    copied.flatMap(({ target, members }) => {
      const head = headOf(rowsStatement(target));
      return members.map(({ documents }) => ({ head, documents }));
    }),
  );
  const messages = typed.flatMap((group) => typedRows(group, rowsStatement(group.target).name));
  return { messages: [...plain.messages, ...messages], count: plain.count + typed.length };
}

/** By the same statement, parsed for these rows. */
function namelessRows(group: Group): Executed {
  const { nameless } = rowsStatement(group.target);
  if (!storesWhole(group)) return { messages: [nameless, ...typedRows(group, '')], count: 1 };
  const all = group.members.map(({ documents }) => ({ head: namelessHead, documents }));
  const { messages, count } = executeDocuments(all);
  return { messages: [nameless, ...messages], count };
}

function storesWhole({ target: { shape } }: Group): boolean {
  return shape.writeMode === 'documents';
}

/** All rows of a group in one statement. */
function typedRows({ members }: Group, name: string): Buffer[] {
  const parts = members.map(({ documents, count }) => ({ documents, from: 0, to: count, without: null }));
  return executeMessages(name, [{ format: 0, value: parts }]);
}

const setting = (name: string, to: string) => `pg_catalog.set_config('${name}', '${to}', true)`;
/** A statement is kept so that it is planned once. */
const bounds = toStatement(
  `select ${setting('lock_timeout', `${limits.sharedLockMs}`)}, ${setting('statement_timeout', `${limits.sharedStatementMs}`)}, ` +
    `${setting('plan_cache_mode', 'force_generic_plan')}, ${numberSql}`,
  [],
);

/** The number is sent before anything is locked. */
const opening: StatementStep = {
  statement: bounds,
  messages: (name = bounds.name) => [...executeMessages(name, []), flushMessage],
};
