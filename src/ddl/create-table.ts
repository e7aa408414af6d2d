/**
 * CREATE TABLE … [INCLUDE …] WITH (connector = 'webhook' …) [VALIDATE …]. Takes tokens, returns a CALL that gives PostgreSQL
 * the plain CREATE TABLE and the catalog the rest; refuses (0A000) what a webhook table cannot have, with its position.
 */
import { parseColumns, parseIncludes, refuseGenerated, undeclared } from './columns.ts';
import type { ColumnList, IncludeClause } from './columns.ts';
import { StatementError, type Cursor } from './cursor.ts';
import {
  booleanOf,
  changeableOptions,
  changeableValue,
  impliedCompare,
  oneOf,
  optionOf,
  parseOptions,
  refuseShards,
  refuseUnknown,
  tableOptions,
  withFactsOfVersionAndReconcile,
} from './options.ts';
import type { Option } from './options.ts';
import { type PlanText, type StatementPlan, callPlan, callerPath, callerSchemas } from './plan.ts';
import { answerFollows, guardOf, parseAnswers, sealAnswers } from './answer-clause.ts';
import type { DdlContext } from './statement-context.ts';
import { parseValidate, sealValidation } from './validate-clause.ts';

const form =
  "The form is: CREATE TABLE name (data JSONB) [INCLUDE ...] [PARTITION BY ...] WITH (connector = 'webhook') [VALIDATE ...] [ANSWER ...]";
const formats = ['json', 'form', 'text', 'bytes'] as const;

/** Whether this CREATE TABLE is one of Headgate's: it names a connector, or has a clause that PostgreSQL does not know. */
export function isWebhookTable(cursor: Cursor): boolean {
  const { tokens } = cursor.statement;
  let depth = 0;
  for (let index = 2; index < tokens.length; index++) {
    const word = cursor.peek(index);
    if (word === '(') depth++;
    else if (word === ')') depth--;
    if (depth > 0) continue;
    // AS is followed by a query, with names of its own.
    if (word === 'as') return false;
    if (word === 'include' && cursor.peek(index - 1) === ')') return true;
    if (word === 'with' && cursor.peek(index + 1) === '(' && namesConnector(cursor, index + 2)) return true;
    const before = cursor.peek(index - 1);
    if (word === 'validate' && before !== 'using' && before !== 'tablespace') {
      const next = cursor.peek(index + 1);
      if (next === 'as' || next === 'secret') return true;
    }
  }
  return false;
}

function namesConnector(cursor: Cursor, from: number): boolean {
  for (let index = from; index < cursor.statement.tokens.length; index++) {
    if (cursor.peek(index) === ')') return false;
    const token = cursor.statement.tokens[index];
    if (token === undefined || cursor.peek(index + 1) !== '=') continue;
    if (/^"?connector"?$/i.test(cursor.raw(token))) return true;
  }
  return false;
}

/** A CALL of headgate.create_webhook_table (catalog/functions/statements.sql), which makes the table and asks for its row of the catalog (`do_register`, registering.sql). */
export function createTable(cursor: Cursor, deps: DdlContext): StatementPlan {
  cursor.refuseForeign('CREATE TABLE');
  const { start } = cursor.statement;
  cursor.expect('create');
  refuseTemporary(cursor);
  cursor.accept('unlogged');
  cursor.expect('table');
  const headEnd = cursor.behind;
  const ifNotExists = cursor.accept('if', 'not', 'exists');
  const name = cursor.qualifiedName(3);
  refuseOther(cursor);
  if (cursor.peek() !== '(') cursor.unexpected(form);
  const list = parseColumns(cursor);
  const before = parsePartition(cursor);
  const includes = parseIncludes(cursor);
  const partition = before ?? parsePartition(cursor);
  refuseOther(cursor);
  if (!cursor.accept('with')) cursor.unexpected(form);
  const options = parseOptions(cursor);
  refuseOther(cursor);
  const clause = cursor.accept('validate') ? parseValidate(cursor) : null;
  if (!cursor.atEnd && !answerFollows(cursor)) cursor.unexpected(form);
  const hasAnswers = !cursor.atEnd || (clause !== null && clause.sender !== null);
  const answers = hasAnswers ? parseAnswers(cursor, clause) : null;

  refuseUnknown(options, tableOptions, 'a webhook table');
  const storable = storedOptions(options, clause?.sender ?? null, deps);
  refuseUnusable(list, includes, options, storable);
  const statement: PlanText[] = [{ start, end: headEnd }, ' ', { start: name.start, end: name.end }, ' '];
  statement.push(...renamedColumns(list), ...undeclared(includes, list));
  statement.push({ start: list.closeAt, end: list.closeAt + 1 });
  if (partition !== null) statement.push(' ', partition);
  const args = [
    { statement },
    name.schema,
    name.name,
    ifNotExists,
    { json: withFactsOfVersionAndReconcile(storable) },
    { json: includes.map(({ what, header, column }) => ({ what, header, column })) },
    optionOf(options, 'document')?.value ?? null,
    { json: clause === null ? null : sealValidation(clause, deps, answers?.caution, storesGet(storable)) },
  ];
  const stored =
    answers && sealAnswers(answers.clauses, clause?.secrets ?? [], guardOf(clause, formatOf(options)), deps);
  const all = [...args, { json: stored }, callerPath, callerSchemas];
  return callPlan('CREATE TABLE', 'create_webhook_table', all, cursor.lexical.text);
}

function storesGet({ methods }: ReturnType<typeof storedOptions>): boolean {
  return typeof methods === 'string' && methods.includes('GET');
}

function formatOf(options: readonly Option[]): (typeof formats)[number] {
  const given = optionOf(options, 'format');
  const name = given === null ? 'json' : oneOf(given, ...formats);
  return formats.find((it) => it === name) ?? 'json';
}

function refuseTemporary(cursor: Cursor): void {
  if (!['temp', 'temporary', 'local', 'global'].includes(cursor.peek())) return;
  throw new StatementError('0A000', 'a webhook table cannot be temporary', cursor.offset, {
    detail: 'Headgate writes into it from sessions of its own.',
  });
}

/** PARTITION BY strategy (…), which is left to PostgreSQL; null: there is none. */
function parsePartition(cursor: Cursor): PlanText | null {
  const start = cursor.offset;
  if (!cursor.accept('partition', 'by')) return null;
  cursor.identifier();
  cursor.expect('(');
  for (let depth = 1; depth > 0; cursor.take()) {
    const sign = cursor.peek();
    if (sign === '(') depth++;
    else if (sign === ')') depth--;
  }
  return { start, end: cursor.behind };
}

/** Clauses that PostgreSQL knows but a webhook table cannot have. */
function refuseOther(cursor: Cursor): void {
  const clauses = ['of', 'partition', 'inherits', 'using', 'tablespace', 'on', 'as', 'without'];
  const word = cursor.peek();
  if (!clauses.includes(word)) return;
  const clause = word === 'partition' || word === 'on' ? `${word} ${cursor.peek(1)}` : word;
  throw new StatementError(
    '0A000',
    `${clause.toUpperCase()} is not supported for a webhook table`,
    cursor.offset,
    { hint: form },
  );
}

/**
 * The options as the catalog stores them: as given, with values of their own type. `document` is stored separately, the
 * catalog stores the column of `collect_into` separately, and Citus knows how a table is distributed.
 */
function storedOptions(
  options: readonly Option[],
  using: string | null,
  context: Pick<DdlContext, 'sendsElsewhere'>,
): { readonly [name: string]: string | boolean } {
  const stored: { [name: string]: string | boolean } = {};
  for (const option of options) {
    if (option.name === 'connector') stored[option.name] = 'webhook';
    else if (changeableOptions.includes(option.name)) stored[option.name] = changeableValue(option, using);
    else if (option.name === 'format') stored[option.name] = oneOf(option, ...formats);
    else if (option.name === 'into') stored[option.name] = targetOf(option, context);
    else if (option.name !== 'document') stored[option.name] = booleanOf(option);
  }
  if (stored['dedupe'] === undefined) return stored;
  const { dedupe_compare: compare } = impliedCompare(options, using);
  return typeof compare === 'string' ? { ...stored, dedupe_compare: compare } : stored;
}

/** The secret that holds the connection string, as written in SQL. */
function targetOf(
  { value, valueAt }: Option,
  { sendsElsewhere }: Pick<DdlContext, 'sendsElsewhere'>,
): string {
  if (sendsElsewhere) return value;
  throw new StatementError('0A000', 'the rows of this Headgate go nowhere else', valueAt, {
    hint: 'The setting HEADGATE_INTO_HOSTS says which hosts they may go to.',
  });
}

/** Keys that are not columns are collected into a column: neither option means anything without the other. */
export function refuseHalfCollect(options: readonly Option[]): void {
  const unknown = optionOf(options, 'on_unknown');
  const into = optionOf(options, 'collect_into');
  const collects = unknown?.value.toLowerCase() === 'collect';
  const hint = "The form is: on_unknown = 'collect', collect_into = 'column'.";
  if (into !== null && unknown !== null && !collects)
    throw new StatementError('22023', "collect_into needs on_unknown = 'collect'", into.nameAt, { hint });
}

/** The age of a row is determined by its time of arrival. */
function refuseUntimedKeep(keep: Option | null, includes: readonly IncludeClause[]): void {
  if (
    keep === null ||
    keep.value.toLowerCase() === 'all' ||
    includes.some(({ what }) => what === 'timestamp')
  )
    return;
  throw new StatementError('0A000', 'keep needs a column for the time of arrival', keep.nameAt, {
    hint: 'Add INCLUDE TIMESTAMP AS column.',
  });
}

/** Refuses what cannot work, as far as the statement shows it; the rest is refused once PostgreSQL has created the table. */
function refuseUnusable(
  list: ColumnList,
  includes: readonly IncludeClause[],
  options: readonly Option[],
  storable: ReturnType<typeof storedOptions>,
): void {
  const refuse = (message: string, at: number): never => {
    throw new StatementError('0A000', message, at);
  };
  const option = (name: string) => optionOf(options, name);
  const connector = option('connector');
  if (connector !== null) oneOf(connector, 'webhook');
  refuseHalfCollect(options);
  refuseShards(options, false);
  refuseUntimedKeep(option('keep'), includes);
  const given = option('format');
  const format = given === null ? 'json' : oneOf(given, ...formats);
  const batched = option('is_batched');
  if (batched !== null && booleanOf(batched) && format !== 'json') {
    refuse(`is_batched = true needs format = 'json': no other body is split into lines`, batched.valueAt);
  }
  const files = option('form_files');
  if (files !== null && format !== 'form') refuse(`form_files needs format = 'form'`, files.nameAt);
  for (const name of ['dedupe', 'dedupe_compare']) {
    const place = option(name);
    if (
      place !== null &&
      storable[name]?.toString().includes('$') === true &&
      (storable['is_batched'] === true || ['text', 'bytes'].includes(format))
    )
      refuse(`${name} by a value of the body needs a body that is one document`, place.valueAt);
  }
  refuseGenerated(includes, list);
  const { columns, open, start } = list;
  if (open) return;
  const included = new Set(includes.map(({ column }) => column));
  const body = columns.filter((it) => !it.generated && !included.has(it.name));
  if (body.length === 0) refuse('a webhook table has a column that takes the body of the request', start);
  const document = option('document');
  if (document !== null && document.value !== '') {
    if (body.some(({ name }) => name === document.value)) return;
    throw new StatementError('42703', `no column "${document.value}" takes the body`, document.valueAt);
  }
  if (given !== null && ['text', 'bytes'].includes(format) && (body.length > 1 || document !== null)) {
    const type = format === 'text' ? 'TEXT' : 'BYTEA';
    refuse(`format = '${format}' needs exactly one column for the body, of type ${type}`, given.valueAt);
  }
}

/**
 * The column list, up to its closing parenthesis, with RisingWave's type names replaced; everything else keeps its
 * position in the client's text.
 */
function renamedColumns(list: ColumnList): PlanText[] {
  const pieces: PlanText[] = [];
  let last = list.start;
  for (const rename of list.columns.flatMap((column) => column.renames)) {
    pieces.push({ start: last, end: rename.start }, rename.to);
    last = rename.end;
  }
  pieces.push({ start: last, end: list.closeAt });
  return pieces;
}
