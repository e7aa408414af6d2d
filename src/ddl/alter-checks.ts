/**
 * ALTER TABLE t VALIDATE … [ANSWER …] and ALTER TABLE t ANSWER …. An UNCHECKED answer is judged against the VALIDATE of
 * the table and the format of its bodies; if the statement does not give them, the catalog is queried before the
 * statement is sent. (What is not committed yet is judged when the listener reads it.) Takes tokens, returns a plan.
 */
import type { SqlSession } from '../types/sql.ts';
import { answerFollows, guardOf, parseAnswers, sealAnswers } from './answer-clause.ts';
import type { AnswerClause, StoredAnswer } from './answer-clause.ts';
import { type Cursor, type Name, StatementError } from './cursor.ts';
import { type StatementPlan, callPlan, callerSchemas, displayName, relationArgument } from './plan.ts';
import type { GuardedTable } from '../catalog/table-compiler.ts';
import type { DdlContext } from './statement-context.ts';
import { parseValidate, sealValidation } from './validate-clause.ts';

interface Altered {
  readonly cursor: Cursor;
  readonly name: Name;
  readonly ifExists: boolean;
  readonly session: SqlSession;
  readonly deps: DdlContext;
}

export function alterChecks(altered: Altered): StatementPlan {
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
