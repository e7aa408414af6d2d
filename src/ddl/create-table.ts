/**
 * CREATE TABLE … WITH (connector = 'webhook' …) [VALIDATE …]. Takes tokens, gives a CALL that hands PostgreSQL the plain
 * CREATE TABLE and the catalog the rest; refuses (0A000) what a webhook table cannot have, where it stands.
 */
import { type ColumnList, parseColumns } from './columns.ts';
import { StatementError, type Cursor } from './cursor.ts';
import { type Option, booleanOf, oneOf, parseOptions, refuseUnknown } from './options.ts';
import { type Piece, type Plan, callPlan, callerPath, callerSchemas } from './plan.ts';
import {
  type ValidateClause,
  type ValidateRooms,
  type Validation,
  parseValidate,
  sealValidation,
} from './validate-clause.ts';

/** What a column takes from the request, not from its body. */
interface Include {
  readonly what: 'header' | 'headers' | 'timestamp';
  readonly header: string | null;
  readonly column: string;
  readonly at: number;
}

const form =
  "The form is: CREATE TABLE name (data JSONB) WITH (connector = 'webhook') VALIDATE [SECRET name] AS ...";
const optionNames = ['connector', 'is_batched', 'webhook.wait_for_persistence', 'on_type_error'];

/** Is this CREATE TABLE one of ours: it names a connector, or has a clause that PostgreSQL does not know? */
export function isWebhookTable(cursor: Cursor): boolean {
  const { tokens } = cursor.statement;
  let depth = 0;
  for (let index = 2; index < tokens.length; index++) {
    const word = cursor.peek(index);
    if (word === '(') depth++;
    else if (word === ')') depth--;
    if (depth > 0) continue;
    // What follows AS is a query, with names of its own.
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

export function createTable(cursor: Cursor, rooms: ValidateRooms): Plan {
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
  const includes = parseIncludes(cursor);
  refuseOther(cursor);
  if (!cursor.accept('with')) cursor.unexpected(form);
  const options = parseOptions(cursor);
  const stored = storedOptions(options);
  refuseOther(cursor);
  const clause = cursor.accept('validate') ? parseValidate(cursor, rooms) : null;
  if (!cursor.atEnd) cursor.unexpected(form);

  refuseLater(list, includes, options);
  const statement: Piece[] = [{ start, end: headEnd }, ' ', { start: name.start, end: name.end }, ' '];
  statement.push(...renamedColumns(list));
  const args = [
    { statement },
    name.schema,
    name.name,
    ifNotExists,
    { json: stored },
    { json: validationOf(clause, rooms) },
    callerPath,
    callerSchemas,
  ];
  return callPlan('CREATE TABLE', 'create_webhook_table', args, cursor.lexical.text);
}

function validationOf(clause: ValidateClause | null, rooms: ValidateRooms): Validation | null {
  return clause === null ? null : sealValidation(clause, rooms);
}

function refuseTemporary(cursor: Cursor): void {
  if (!['temp', 'temporary', 'local', 'global'].includes(cursor.peek())) return;
  throw new StatementError('0A000', 'a webhook table cannot be temporary', cursor.offset, {
    detail: 'Headgate writes into it from sessions of its own.',
  });
}

/** Clauses that PostgreSQL knows and a webhook table does not have. */
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

function parseIncludes(cursor: Cursor): Include[] {
  const includes: Include[] = [];
  for (let at = cursor.offset; cursor.accept('include'); at = cursor.offset) {
    let header: string | null = null;
    let what: Include['what'];
    if (cursor.accept('header')) {
      what = 'header';
      header = cursor.literal(false);
      if (header === null) cursor.unexpected();
    } else if (cursor.accept('headers')) {
      what = 'headers';
    } else {
      cursor.expect('timestamp');
      what = 'timestamp';
    }
    cursor.expect('as');
    includes.push({ what, header, column: cursor.identifier(), at });
  }
  return includes;
}

/** As they stand in the catalog: what was given, with values of their own type. */
function storedOptions(options: readonly Option[]): { readonly [name: string]: string | boolean } {
  const connector = options.find((option) => option.name === 'connector');
  if (connector !== undefined) oneOf(connector, 'webhook');
  refuseUnknown(options, optionNames, 'a webhook table');
  const stored: { [name: string]: string | boolean } = {};
  for (const option of options) {
    if (option.name === 'connector') stored[option.name] = 'webhook';
    else if (option.name === 'on_type_error') stored[option.name] = oneOf(option, 'reject', 'null');
    else stored[option.name] = booleanOf(option);
  }
  return stored;
}

/** What the language has and this version does not do: one sentence each. */
function refuseLater(list: ColumnList, includes: readonly Include[], options: readonly Option[]): void {
  const refuse = (message: string, at: number): never => {
    throw new StatementError('0A000', message, at);
  };
  const [include] = includes;
  if (include !== undefined) refuse('INCLUDE is not supported yet', include.at);
  const keyAt =
    list.primaryKeyAt ?? list.columns.find((it) => it.primaryKeyAt !== null)?.primaryKeyAt ?? null;
  if (keyAt !== null) refuse('PRIMARY KEY is not supported in a webhook table yet', keyAt);
  const [column, second] = list.columns;
  const shape = 'a webhook table has exactly one column, of type JSONB, that takes the body of the request';
  if (column === undefined) return refuse(shape, list.start);
  if (second !== undefined) refuse(`${shape}; more columns are not supported yet`, second.at);
  if (column.type !== 'jsonb') refuse(shape, column.typeAt);
  if (column.generatedAt !== null)
    refuse('the column of a webhook table cannot be generated', column.generatedAt);
  for (const option of options) {
    if (option.name === 'is_batched' && booleanOf(option)) {
      refuse('is_batched = true is not supported yet', option.valueAt);
    }
    if (option.name === 'on_type_error' && oneOf(option, 'reject', 'null') === 'null') {
      refuse("on_type_error = 'null' is not supported yet", option.valueAt);
    }
  }
}

/** The column list with RisingWave's type names replaced; everything else keeps its place in the client's text. */
function renamedColumns(list: ColumnList): Piece[] {
  const pieces: Piece[] = [];
  let last = list.start;
  for (const rename of list.columns.flatMap((column) => column.renames)) {
    pieces.push({ start: last, end: rename.start }, rename.to);
    last = rename.end;
  }
  pieces.push({ start: last, end: list.end });
  return pieces;
}
