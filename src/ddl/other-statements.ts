/**
 * ALTER TABLE … VALIDATE, ANSWER, INCLUDE, DROP VALIDATE, DROP ANSWER, SET and RESET of options, SHOW, DESCRIBE, FLUSH, and
 * PostgreSQL's own statements about whole databases, which need every connection of Headgate's to be closed. Takes
 * tokens, returns a plan, or null for a statement that is PostgreSQL's.
 */
import { includeTypes, parseIncludes } from './columns.ts';
import { refuseHalfCollect } from './create-table.ts';
import { StatementError, type Cursor, type Name } from './cursor.ts';
import {
  changeableOptions,
  changeableValue,
  impliedCompare,
  optionName,
  parseOptions,
  refuseLasting,
  refuseShards,
  refuseUnknown,
  senderMeant,
  tableOptions,
  unnamedSender,
  withFactsOfVersionAndReconcile,
} from './options.ts';
import {
  type ReleasedDatabase,
  type StatementPlan,
  callPlan,
  callerPath,
  callerSchemas,
  displayName,
  relationArgument,
  relationOrError,
} from './plan.ts';
import { selectPlan, showCreatePlan, statePlan } from './result-plans.ts';
import type { SqlSession } from '../types/sql.ts';
import { sendersMeant } from '../senders/senders.ts';
import type { DdlContext } from './statement-context.ts';
import { answerFollows, guardOf, parseAnswers, sealAnswers } from './answer-clause.ts';
import type { AnswerClause, StoredAnswer } from './answer-clause.ts';
import type { GuardedTable } from '../catalog/role-queries.ts';
import { parseValidate, sealValidation } from './validate-clause.ts';

export function alterTable(cursor: Cursor, session: SqlSession, deps: DdlContext): StatementPlan | null {
  const { statement, lexical } = cursor;
  // PostgreSQL's own ALTER TABLE is far more frequent: it is not read beyond its name.
  cursor.expect('alter', 'table');
  const ifExists = cursor.accept('if', 'exists');
  if (cursor.peek() === 'only') cursor.accept('only');
  const action = findAction(cursor);
  if (action === null) return null;
  cursor.refuseForeign('ALTER TABLE');
  const name = cursor.qualifiedName(3);
  cursor.accept('*');
  if (action === 'drop validate' || action === 'drop answer') {
    const part = action.slice('drop '.length);
    cursor.expect('drop', part);
    const original = { statement: [{ start: statement.start, end: statement.end }] };
    const args = [relationArgument(name), displayName(name), ifExists, part, original, callerPath];
    return callPlan('ALTER TABLE', 'drop_check', args, lexical.text);
  }
  if (action === 'include') return addIncludes(cursor, name, ifExists);
  if (action === 'reset') return resetOptions(cursor, name, ifExists);
  if (action === 'set') return setOptions(cursor, name, ifExists, session, deps);
  return alterChecks({ cursor, name, ifExists, session, deps });
}

function addIncludes(cursor: Cursor, name: Name, ifExists: boolean): StatementPlan {
  const added = parseIncludes(cursor).map(({ what, header, column }) => ({ what, header, column }));
  cursor.expectEnd();
  const args = [relationArgument(name), displayName(name), ifExists, { json: includeTypes }, { json: added }];
  return callPlan('ALTER TABLE', 'add_includes', args, cursor.lexical.text);
}

/** SET ( option = value [, …] ) for options of a webhook table; PostgreSQL has none of these names. */
function setOptions(
  cursor: Cursor,
  name: Name,
  ifExists: boolean,
  { database, user }: SqlSession,
  context: DdlContext,
): StatementPlan {
  cursor.expect('set');
  const options = parseOptions(cursor);
  cursor.expectEnd();
  for (const { name, nameAt } of options) refuseLasting(name, nameAt);
  refuseUnknown(options, changeableOptions, 'ALTER TABLE of a webhook table');
  refuseHalfCollect(options);
  refuseShards(options, true);
  const planOf = (using: string | null): StatementPlan => {
    const changes = {
      ...impliedCompare(options, using),
      ...Object.fromEntries(options.map((option) => [option.name, changeableValue(option, using)])),
    };
    const args = [
      relationArgument(name),
      displayName(name),
      ifExists,
      { json: withFactsOfVersionAndReconcile(changes) },
      callerSchemas,
    ];
    return callPlan('ALTER TABLE', 'alter_options', args, cursor.lexical.text);
  };
  const unnamed = unnamedSender(options);
  if (unnamed === null) return planOf(null);
  const later = async () => {
    const tables = await context.guards({ database, user, schema: name.schema, table: name.name });
    const candidates = tables.flatMap(({ validate }) =>
      validate === null ? [] : sendersMeant(validate.expression, validate.secrets).map(({ id }) => id),
    );
    const using = senderMeant(unnamed, [...new Set(candidates)]);
    return planOf(using).pieces;
  };
  return { pieces: [], tag: 'ALTER TABLE', needsCatalog: true, releases: [], later };
}

/** RESET ( option [, …] ): as if they had never been set. PostgreSQL itself would accept any name, and do nothing. */
function resetOptions(cursor: Cursor, name: Name, ifExists: boolean): StatementPlan {
  cursor.expect('reset', '(');
  const changes: Record<string, null> = {};
  do {
    const at = cursor.offset;
    const option = optionName(cursor);
    refuseLasting(option, at);
    if (!changeableOptions.includes(option) || fixed.has(option))
      throw new StatementError('22023', `option "${option}" cannot be reset`, at);
    changes[option] = null;
  } while (cursor.accept(','));
  cursor.expect(')');
  cursor.expectEnd();
  const args = [relationArgument(name), displayName(name), ifExists, { json: changes }, callerSchemas];
  return callPlan('ALTER TABLE', 'alter_options', args, cursor.lexical.text);
}

/** What Citus knows, and what says nothing alone. */
const fixed = new Set(['distribute', 'shards', 'collect_into']);

/** Of the options' names. */
const beginnings = new Set(tableOptions.map((name) => name.replace(/\..*/, '')));

/** The action on the table: looks past the table's name, which ends where no dot follows. */
function findAction(
  cursor: Cursor,
): 'check' | 'include' | 'drop validate' | 'drop answer' | 'set' | 'reset' | null {
  let ahead = 1;
  while (cursor.peek(ahead) === '.') ahead += 2;
  if (cursor.peek(ahead) === '*') ahead++;
  const word = cursor.peek(ahead);
  const next = cursor.peek(ahead + 1);
  if (word === 'validate') return next === 'constraint' ? null : 'check';
  if (word === 'answer') return 'check';
  if (word === 'include') return 'include';
  if ((word === 'set' || word === 'reset') && next === '(')
    return beginnings.has(cursor.peek(ahead + 2)) ? word : null;
  // ALTER TABLE t DROP validate CASCADE, or DROP validate as one of several actions, drops a column of that name.
  if (word !== 'drop' || !cursor.isLast(ahead + 1)) return null;
  return next === 'validate' || next === 'answer' ? `drop ${next}` : null;
}

/** What this Headgate knows and the catalog does not. */
export interface ShownState {
  readonly spool: () => Promise<object>;
  readonly endpoints: () => Promise<object>;
  /** By oid, what has changed since of the sender whose check a table has. */
  readonly former: () => Promise<object>;
}

export function show(cursor: Cursor, state: ShownState): StatementPlan | null {
  cursor.expect('show');
  if (cursor.accept('tables')) {
    cursor.expectEnd();
    return selectPlan('SHOW', 'show_tables(pg_catalog.current_schemas(false))');
  }
  if (cursor.accept('secrets')) {
    cursor.expectEnd();
    return selectPlan('SHOW', 'show_secrets()');
  }
  if (cursor.accept('tokens')) {
    cursor.expectEnd();
    return selectPlan('SHOW', 'show_tokens()');
  }
  if (cursor.accept('spool')) {
    cursor.expectEnd();
    return statePlan('show_spool', state.spool);
  }
  if (cursor.accept('endpoints')) {
    cursor.expectEnd();
    return statePlan('show_endpoints', state.endpoints);
  }
  if (!cursor.accept('create', 'table')) return null;
  return showCreatePlan(relationOrError(lastName(cursor, 'SHOW CREATE TABLE')), state.former);
}

export function describe(cursor: Cursor): StatementPlan {
  cursor.expect('describe');
  return selectPlan('DESCRIBE', `describe(${relationOrError(lastName(cursor, 'DESCRIBE'))})`);
}

function lastName(cursor: Cursor, what: string): Name {
  cursor.refuseForeign(what);
  const name = cursor.qualifiedName(3);
  cursor.expectEnd();
  return name;
}

export function flush(cursor: Cursor): StatementPlan {
  cursor.expect('flush');
  cursor.expectEnd();
  return callPlan('FLUSH', 'flush', [], cursor.lexical.text);
}

/** DROP DATABASE, ALTER DATABASE … RENAME TO | SET TABLESPACE, CREATE DATABASE … TEMPLATE: passed on unchanged. */
export function databaseStatement(cursor: Cursor): StatementPlan | null {
  const { statement } = cursor;
  const verb = cursor.peek();
  cursor.take();
  cursor.expect('database');
  let database: string | null = null;
  let mayStay: ReleasedDatabase['mayStay'] = verb === 'create' ? 'own' : 'none';
  if (verb === 'create') {
    database = templateName(cursor);
  } else {
    cursor.accept('if', 'exists');
    const name = cursor.tryIdentifier();
    const moves = cursor.accept('rename') || cursor.accept('set', 'tablespace');
    if (verb === 'drop' || moves) database = name;
    if (verb === 'drop' && hasForce(cursor)) mayStay = 'all';
  }
  if (database === null) return null;
  return {
    pieces: [{ start: statement.start, end: statement.end }],
    tag: null,
    needsCatalog: false,
    releases: [{ database, mayStay }],
  };
}

function hasForce(cursor: Cursor): boolean {
  for (; !cursor.atEnd; cursor.take()) if (cursor.accept('force')) return true;
  return false;
}

function templateName(cursor: Cursor): string | null {
  for (; !cursor.atEnd; cursor.take()) {
    if (!cursor.accept('template')) continue;
    cursor.accept('=');
    return cursor.tryIdentifier();
  }
  return null;
}

interface Altered {
  readonly cursor: Cursor;
  readonly name: Name;
  readonly ifExists: boolean;
  readonly session: SqlSession;
  readonly deps: DdlContext;
}

function alterChecks(altered: Altered): StatementPlan {
  const { cursor, name, ifExists, deps } = altered;
  const call = (checks: object): StatementPlan => {
    const args = [relationArgument(name), displayName(name), ifExists, { json: checks }, callerSchemas];
    return callPlan('ALTER TABLE', 'alter_checks', args, cursor.lexical.text);
  };
  if (!answerFollows(cursor)) {
    cursor.expect('validate');
    const validate = parseValidate(cursor);
    const answers = parseAnswers(cursor, validate);
    const validation = sealValidation(validate, deps, answers?.caution);
    if (answers === null) return call({ validation });
    return judged(altered, answers.clauses, {
      seal: (table) =>
        sealAnswers(answers.clauses, validate.secrets, guardOf(validate, table?.format ?? 'json'), deps),
      call: (stored) => call({ validation, answers: stored, how: 'replace' }),
    });
  }
  const clauses = parseAnswers(cursor, null)?.clauses ?? [];
  return judged(altered, clauses, {
    seal: (table) => {
      const validate = table?.validate ?? null;
      const guard = validate === null ? null : { ...validate, format: table?.format ?? 'json' };
      return sealAnswers(clauses, [], guard, deps);
    },
    call: (stored) => call({ answers: stored, how: 'add' }),
  });
}

interface AlterSteps {
  /** Throws StatementError. null: nothing is known of the table. */
  readonly seal: (table: GuardedTable | null) => readonly StoredAnswer[];
  readonly call: (stored: readonly StoredAnswer[]) => StatementPlan;
}

function judged(
  { name, session, deps }: Altered,
  clauses: readonly AnswerClause[],
  steps: AlterSteps,
): StatementPlan {
  const { seal, call } = steps;
  // Errors in the clauses themselves are reported at once.
  const stored = seal(null);
  const plan = call(stored);
  if (!clauses.some(({ unchecked }) => unchecked)) return plan;
  const { database, user } = session;
  return {
    ...plan,
    later: async () => {
      const tables = await deps.guards({ database, user, schema: name.schema, table: name.name });
      return call(tables.length === 0 ? stored : acceptable(tables, seal)).pieces;
    },
  };
}

/** Only the client's session knows which of several tables is meant: at least one of them has to accept the clauses. */
function acceptable(tables: readonly GuardedTable[], seal: AlterSteps['seal']): readonly StoredAnswer[] {
  let refused: unknown = null;
  for (const table of tables) {
    try {
      return seal(table);
    } catch (error) {
      if (!(error instanceof StatementError)) throw error;
      refused = error;
    }
  }
  throw refused;
}
