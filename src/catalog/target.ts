/**
 * Webhook tables as requests meet them. Pure: takes rows of the catalog and a compiler, returns Targets, and the snapshot of all of them. A table whose
 * check cannot be compiled, or whose columns no longer fit what it was created for, is unusable: its requests are answered 503, never accepted
 * unchecked, and never stored in another form.
 */
import type { RequestCheck } from '../types/request.ts';
import type { Code, Include, Intake, SnsTopics, SpoolChoice, Target, Into } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { makeAnswers, makeCheck, noAnswers, StillToLearn } from './table-compiler.ts';
import type { CompiledCheck, TableCompiler } from './table-compiler.ts';
import { dedupeOf, newestOf } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import { destinationOf } from './into-url.ts';
import { openSecrets } from './seals.ts';
import { parseSubscriptions, parseTopics, readMessage, topicOf } from '../senders/sns-topics.ts';
import { formatOf } from './catalog-rows.ts';
import type { CatalogRow, UnreadRow } from './catalog-rows.ts';
import { tableKey } from './database-tables.ts';
import type { Snapshot } from './database-tables.ts';
import { toNewest } from '../relations/newest.ts';
import { missingRights } from '../relations/rights.ts';
import { toCode, toShape, typeOids } from '../relations/shape.ts';

/** Headers that carry credentials, whatever headers the table's check reads. */
const credentialHeaders = ['authorization', 'cookie', 'proxy-authorization'];

const tooLarge =
  'its columns, VALIDATE, secrets, defaults, checks and other expressions, or those of all tables of its owner, take too much of the catalog';

const locked = 'somebody has locked it (ACCESS EXCLUSIVE), or waits to; it is read when it is free';

const unreadable = (why: string): string =>
  `the engine fails to read its definition: ${why}; it is tried again every minute`;

/**
 * The next picture. Targets of tables that did not change are the same objects as before. `stays`: tables that are left
 * as they were and are not among the rows.
 */
export function nextSnapshot(
  before: Snapshot,
  database: string,
  { rows, unread }: { readonly rows: readonly CatalogRow[]; readonly unread: readonly UnreadRow[] },
  compiler: TableCompiler,
  stays: (target: Target) => boolean = () => false,
): Snapshot {
  const left = <V>(all: ReadonlyMap<string, V>): Map<string, V> =>
    new Map([...all].filter(([key]) => isLeft.has(key)));
  const isLeft = new Set([...before.tables].filter(([, target]) => stays(target)).map(([key]) => key));
  const tables = left(before.tables);
  const sources = left(before.sources);
  const unusable = left(before.unusable);
  const unanswering = left(before.unanswering);
  for (const row of rows) {
    const key = tableKey(row.schema_name, row.table_name);
    const source = JSON.stringify(row);
    // An unusable table is made again: its key may have come back.
    const doubtful = before.unusable.has(key) || before.unanswering.has(key);
    const same = before.sources.get(key) === source && !doubtful;
    const kept = same ? before.tables.get(key) : undefined;
    // The name may have been another table's.
    unusable.delete(key);
    unanswering.delete(key);
    sources.set(key, source);
    if (kept !== undefined) {
      tables.set(key, kept);
      continue;
    }
    const made = toTarget(database, row, compiler);
    tables.set(key, made.target);
    if (made.unusable !== null) unusable.set(key, made.unusable);
    if (made.unanswering !== null) unanswering.set(key, made.unanswering);
  }
  for (const { relation: oid, schema_name: schema, table_name: table, why } of unread) {
    const key = tableKey(schema, table);
    sources.delete(key);
    unanswering.delete(key);
    tables.set(key, unusableTarget({ database, schema, table, oid }));
    unusable.set(key, why === undefined ? tooLarge : why === 'locked' ? locked : unreadable(why));
  }
  return { version: before.version + 1, tables, sources, unusable, unanswering };
}

/** `unusable`: why its requests are answered 503; `unanswering`: why its ANSWER cannot be used; null: it can be. */
function toTarget(
  database: string,
  row: CatalogRow,
  compiler: TableCompiler,
): { target: Target; unusable: string | null; unanswering: string | null } {
  const shape = shapeOf(row);
  const code = toCode(row, compiler);
  let unusable = problemOf(row, shape, code);
  let compiled: CompiledCheck | null = null;
  let learns = false;
  const sns = snsOf(row, compiler);
  let dedupe: Dedupe | undefined;
  let into: Into | undefined;
  if (unusable === null) {
    try {
      compiled = makeCheck(row, compiler);
      into = intoOf(row, compiler);
      dedupe = into === undefined ? (dedupeOf(row.options) ?? undefined) : undefined;
      if (sns !== undefined && compiled !== null)
        compiled = { ...compiled, check: ofTopics(compiled.check, sns) };
    } catch (error) {
      unusable = error instanceof Error ? error.message : String(error);
      learns = error instanceof StillToLearn;
    }
  }
  const { schema_name: schema, table_name: table, relation: oid } = row;
  const usable = typeof shape === 'string' ? unusableShape(row.version) : shape;
  const answers = unusable === null || learns ? makeAnswers(row, compiler) : noAnswers;
  return {
    unanswering: answers.problem,
    target: {
      database,
      schema,
      table,
      oid,
      check: unusable === null ? (compiled?.check ?? null) : 'unusable',
      fetchedKeys: compiled?.fetchedKeys,
      readsEncodedBody: compiled?.readsEncodedBody,
      whyRefused: compiled?.why,
      sender: compiled?.sender,
      answers: answers.made ?? undefined,
      waitsForDisk: row.options['webhook.wait_for_persistence'] !== false,
      hasLocks: true,
      shape: usable,
      code:
        typeof code === 'string'
          ? { ...nobodys, owner: row.code.owner, ownerName: row.code.owner_name }
          : { ...code, functionsIn: 'headgate' },
      intake: {
        format: formatOf(row.options),
        files: row.options['form_files'] === 'content' ? 'content' : undefined,
        replaces: row.options['on_unstorable'] === 'replace',
        batched: row.options['is_batched'] === true,
        document: row.takes_document ? row.document : null,
        unknown: unknownOf(row),
        includes: includesOf(row, usable),
        hiddenHeaders: hiddenHeaders(compiled),
      },
      methods: methodsOf(row),
      spool: spoolOf(row),
      dedupe,
      sns,
      eventGrid: parseSubscriptions(row.options['event_grid_subscriptions']) ?? undefined,
      inspected: row.options['inspect'] === 'bodies',
      reconciled: (row.options['reconcile'] ?? 'off') !== 'off',
      into,
    },
    unusable,
  };
}

/** The types that a column for the whole body may have, by the body's format. */
const bodyTypes: { readonly [format in Intake['format']]: readonly number[] } = {
  json: [typeOids.jsonb, typeOids.json],
  form: [typeOids.jsonb, typeOids.json],
  text: [typeOids.text, typeOids.varchar],
  bytes: [typeOids.bytea],
};

/** null: the table fits what it was created for, as far as that does not depend on Headgate's settings. */
export function shapeProblem(row: CatalogRow): string | null {
  const shape = shapeOf(row);
  return problemOf(row, shape, toCode(row, {}));
}

/** A missing right may also be why its rows count as such that run code. */
function problemOf(row: CatalogRow, shape: Shape | string, code: Code | string): string | null {
  if (typeof shape === 'string') return shape;
  // Rows that go to another server need no rights here.
  const missing = (row.target ?? null) === null ? missingRights(row, shape, code) : null;
  return missing ?? (typeof code === 'string' ? code : null);
}

/** A text: why the table does not fit. */
function shapeOf(row: CatalogRow): Shape | string {
  if (row.takes_document) {
    const column = row.columns.find(({ name }) => name === row.document);
    if (column === undefined) return 'the column that takes the body is gone';
    const types = bodyTypes[formatOf(row.options)];
    if (!types.includes(column.base) || !column.writable)
      return `the column "${column.name}", which takes the body, is of type ${column.type}`;
  }
  const includes = row.includes.map(({ column }) => column);
  const shape = toShape(row, {
    writeMode: (row.target ?? null) === null ? null : 'insert',
    document: row.takes_document ? row.document : null,
    includes,
    private: row.private ?? [],
    numbersRows: (row.target ?? null) === null,
    onTypeError: row.options['on_type_error'] === 'null' ? 'null' : 'reject',
  });
  if (typeof shape === 'string') return shape;
  if (shape.columns.every(({ name }) => includes.includes(name)))
    return 'no column of the table takes the body any more';
  return collectProblem(row, shape) ?? newestShape(row, shape);
}

/** Which rows replace others, with the option `version`. */
function newestShape(row: CatalogRow, shape: Shape): Shape | string {
  let option: ReturnType<typeof newestOf>;
  try {
    option = newestOf(row.options);
  } catch (error) {
    return (error as Error).message;
  }
  if (option === null) return shape;
  const headerColumn = (name: string) =>
    row.includes.find(({ what, header }) => what === 'header' && header?.toLowerCase() === name)?.column;
  const document = row.takes_document ? row.document : null;
  const newest = toNewest(option, { row, shape, document, headerColumn });
  return typeof newest === 'string' ? newest : { ...shape, newest };
}

function collectProblem({ options, collect }: CatalogRow, shape: Shape): string | null {
  if (options['on_unknown'] !== 'collect') return null;
  if (collect === null) return 'the column that takes keys which are no columns is gone';
  const column = shape.columns.find(({ name }) => name === collect);
  const fits = column !== undefined && bodyTypes.json.includes(column.baseType);
  return fits ? null : `the column "${collect}", which takes keys that are no columns, is no JSONB any more`;
}

/** For a table whose requests are all answered 503. */
function unusableShape(version: string): Shape {
  return { version, writeMode: 'insert', columns: [], key: [], document: null, onTypeError: 'reject' };
}

function intoOf({ target }: CatalogRow, compiler: TableCompiler): Into | undefined {
  if (target === undefined || target === null) return undefined;
  if (target.allowed !== true)
    throw new Error(`its owner may not use the secret "${target.name}", which says where its rows go`);
  const [value = ''] = openSecrets([{ ...target, alias: target.name }], compiler).values();
  return destinationOf(value, compiler.intoHosts, target.trusted);
}

export function snsOf({ options, secrets }: CatalogRow, compiler: TableCompiler): SnsTopics | undefined {
  const { sns_topics: given } = options;
  const topics = typeof given === 'string' ? parseTopics(given) : null;
  const [first] = secrets;
  if (topics === null || first === undefined) return undefined;
  try {
    const [value = ''] = openSecrets([first], compiler).values();
    return { topics, secret: { name: first.name, sealId: first.seal_id, value } };
  } catch {
    // It does not open, which makes the table unusable.
    return undefined;
  }
}

/** The signature proves that the message comes from SNS; the topic says whose it is. */
export function ofTopics(check: RequestCheck, { topics }: SnsTopics): RequestCheck {
  return (request) => check(request) && topicOf(readMessage(request.body), topics) !== null;
}

export function methodsOf({ options }: CatalogRow): Target['methods'] {
  const { methods } = options;
  return typeof methods === 'string' && methods !== 'POST' ? new Set(methods.split(', ')) : undefined;
}

function spoolOf({ options }: CatalogRow): SpoolChoice {
  const { spool } = options;
  const mode = spool === 'off' || spool === 'fallback' ? spool : null;
  return { mode, status: options['spool_status'] === '200' ? 200 : 202, isMoved: 'moved' in options };
}

/** For a table of which only the name is known or may be used. */
export function unusableTarget(name: Pick<Target, 'database' | 'schema' | 'table' | 'oid'>): Target {
  return {
    ...name,
    check: 'unusable',
    waitsForDisk: true,
    hasLocks: true,
    shape: unusableShape(''),
    code: { ...nobodys, owner: 0, ownerName: '' },
    intake: {
      format: 'json',
      batched: false,
      document: null,
      unknown: 'ignore',
      includes: [],
      hiddenHeaders: null,
    },
  };
}

/** Nothing is stored. */
const nobodys = {
  as: 'owner',
  deletesAs: 'owner',
  inert: false,
  schemaTrusted: false,
  writer: '',
  functionsIn: 'headgate',
} as const;

function unknownOf({ options, collect }: CatalogRow): Intake['unknown'] {
  if (options['on_unknown'] === 'collect' && collect !== null) return { into: collect };
  return options['on_unknown'] === 'reject' ? 'reject' : 'ignore';
}

/** Only columns that can be written: one may have become an identity. */
function includesOf(row: CatalogRow, { columns }: Shape): readonly Include[] {
  return row.includes
    .filter(({ column }) => columns.some(({ name }) => name === column))
    .map(({ what, header, column }) =>
      what === 'header' ? { what, header: header ?? '', column } : { what, column },
    );
}

function hiddenHeaders(compiled: CompiledCheck | null): ReadonlySet<string> | null {
  if (compiled?.headers === null) return null;
  return new Set([...credentialHeaders, ...(compiled?.headers ?? [])]);
}
