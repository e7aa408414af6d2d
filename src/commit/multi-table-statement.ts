/**
 * How small groups of several tables are stored: one transaction in one write. Keeps what a group alone keeps. If it fails,
 * for whatever reason, each group is tried alone, and judged there.
 *
 * Rows of a table are stored by a statement of its own that the connection keeps. If it keeps enough already, documents are stored by one
 * for all such tables: it locks them, checks that each is what its requests were checked for, and stores (catalog/functions/committing.sql).
 *
 * It waits for whoever holds a table or a row (of a unique index) for `sharedLockMs` at most, so that two such transactions never wait
 * for each other in a circle.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Group, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import { arrayOf, arrayTypes, documentsOf, numberOf } from './array-parameter.ts';
import type { ArrayType } from './array-parameter.ts';
import { askedFirstSql, isPlain, numberSql, textOf } from './lock-table.ts';
import { toStatement } from './prepared.ts';
import type { PreparedStatements, PreparedStatement } from './prepared.ts';
import type { CommitSession } from './session.ts';
import { storeStatement, typeOids } from './statements.ts';
import type { StoreAttempt } from './interpret-reply.ts';
import { documentHead, executeDocuments, executeMessages, flushMessage } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';

/** Nothing may depend on a table's own settings or code: no code runs, no row replaces another, and COMMIT waits for the disk. */
export function mayShare(group: Group, { ackDeadlineMs }: Pick<Limits, 'ackDeadlineMs'>): boolean {
  const { shape, code, waitsForDisk, dedupe } = group.target;
  if (!isPlain(group.target) || code.functionsIn === null) return false;
  if (dedupe !== undefined || !waitsForDisk || ackTimeoutOf(group) > ackDeadlineMs) return false;
  return shape.writeMode === 'copy' || (shape.writeMode === 'insert' && group.members.every(onlyStores));
}

function onlyStores({ deletes, keeps }: Rows): boolean {
  return deletes === null && keeps === null;
}

/** How long its senders wait, in ms. */
export function ackTimeoutOf({ members }: Group): number {
  return members.reduce((most, rows) => Math.max(most, rows.ackTimeoutMs), 0);
}

/** How the rows of some groups are stored together, and which groups cannot be. */
export interface SharedStatement {
  /** By a statement of its table. */
  readonly own: readonly Group[];
  /** By one statement for all of them. */
  readonly others: readonly Group[];
  readonly none: ReadonlySet<Group>;
}

/** `kept`: where the connection keeps its statements for tables. */
export function sharesOf(groups: readonly Group[], kept: PreparedStatements | null): SharedStatement {
  const [own, others, none]: [Group[], Group[], Set<Group>] = [[], [], new Set()];
  const statements = kept === null ? [] : groups.map(({ target }) => rowsStatement(target));
  const fit = kept?.roomFor(statements, limits.sharedStatementsRestMin);
  for (const group of groups)
    if (fit?.has(rowsStatement(group.target).name) === true) own.push(group);
    // Only documents that are stored unchanged can do without.
    else if (group.target.shape.writeMode === 'copy') others.push(group);
    else none.add(group);
  return { own, others, none };
}

/** Stores the rows of these groups, of each in order; all of them, or none. */
export function storeTogether(
  session: CommitSession,
  { own, others }: SharedStatement,
  kept: PreparedStatements | null,
  boundMs: number,
): Promise<StoreAttempt> {
  const rows = ownRows(own);
  const hasOthers = others.length > 0;
  const messages = hasOthers ? executeMessages(store.name, parametersOf(others)) : [];
  const shared = {
    first: hasOthers ? [bounds, store] : [bounds],
    opening: openingOf(boundMs),
    own: own.map(({ target }) => rowsStatement(target)),
    messages: [...rows.messages, ...messages],
    count: 1 + rows.count + (hasOthers ? 1 : 0),
  };
  return session.storeShared(shared, kept);
}

/**
 * Stores rows in a table that runs no code, if it is the one that they are for: checked when the statement is planned, and once more
 * for each row. A rule would be an error anyway. Fails if it runs too late.
 */
const rowsStatement = rememberedOf((target: Target): PreparedStatement => {
  const { oid: id, shape } = target;
  const column = quoteIdentifier(shape.columns[0]?.name ?? '');
  const isCopied = shape.writeMode === 'copy';
  const insert = isCopied
    ? `insert into ${relationName(target)} (${column}) select $1 from asked`
    : `${storeStatement(target)} where exists (select from asked)`;
  const late = `pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.now() operator(pg_catalog.>) '${limits.sharedStatementMs} ms'::pg_catalog.interval`;
  const sql =
    `${askedFirstSql(target)} ${insert} returning (case when tableoid operator(pg_catalog.<>) ${id}::pg_catalog.oid then 'elsewhere' ` +
    `when ${late} then 'late' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [isCopied ? typeOids.jsonb : typeOids.json]);
});

const headOf = rememberedOf((statement: PreparedStatement) => documentHead(statement.name));

function ownRows(groups: readonly Group[]): { readonly messages: Buffer[]; readonly count: number } {
  const copied = groups.filter(({ target }) => target.shape.writeMode === 'copy');
  const plain = executeDocuments(
    copied.flatMap(({ target, members }) => {
      const head = headOf(rowsStatement(target));
      return members.map(({ documents }) => ({ head, documents }));
    }),
  );
  const typed = groups.filter(({ target }) => target.shape.writeMode !== 'copy');
  return {
    messages: [...plain.messages, ...typed.flatMap(typedRows)],
    count: plain.count + typed.length,
  };
}

/** All rows of a group in one statement. */
function typedRows({ target, members }: Group): Buffer[] {
  const parts = members.map(({ documents, count }) => ({ documents, from: 0, to: count, without: null }));
  return executeMessages(rowsStatement(target).name, [{ format: 0, value: parts }]);
}

const { int4, jsonb, oid, text } = arrayTypes;

const setting = (name: string, to: string) => `pg_catalog.set_config('${name}', ${to}, true)`;
/** A statement is kept so that it is planned once. */
const bounds = toStatement(
  `select ${setting('lock_timeout', `'${limits.sharedLockMs}'`)}, ${setting('statement_timeout', '$1')}, ` +
    `${setting('plan_cache_mode', `'force_generic_plan'`)}, ${numberSql}`,
  [text.element],
);

/** The number is sent before anything is locked. */
function openingOf(boundMs: number): Buffer[] {
  const bound = textOf(String(Math.ceil(boundMs)));
  return [...executeMessages(bounds.name, [bound]), flushMessage];
}

const store = toStatement(
  'select headgate.store_together($1, $2, $3, $4, $5, $6, $7)',
  [text, text, oid, text, oid, int4, jsonb].map(({ array }) => array),
);

function parametersOf(groups: readonly Group[]): WireParameter[] {
  const texts = (of: (group: Group) => string) =>
    arrayOf(text, groups.map((group) => Buffer.from(of(group)))); // prettier-ignore
  const numbers = (type: ArrayType, of: (group: Group) => number) =>
    arrayOf(type, groups.map((group) => numberOf(of(group)))); // prettier-ignore
  return [
    texts(({ target }) => relationName(target)),
    texts(({ target }) => quoteIdentifier(target.shape.columns[0]?.name ?? '')),
    numbers(oid, ({ target }) => target.oid),
    texts(({ target }) => target.shape.version),
    numbers(oid, ({ target }) => target.code.owner),
    numbers(int4, ({ rows }) => rows),
    documentsOf(groups.flatMap(({ members }) => members)),
  ];
}
