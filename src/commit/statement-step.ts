/** The steps of a transaction: each is a prepared statement with its parameters, or a text that is parsed each time. Pure: returns messages. */
import type { CountedBackoff } from './counted-backoff.ts';
import type { PreparedStatement } from './prepared-statements.ts';
import { executeMessages, parseMessage } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';

/** One statement with its parameters, as it is sent. */
export interface StatementStep {
  /** null: it is unnamed, and parsed each time. */
  readonly statement: PreparedStatement | null;
  /** Made when they are about to be written, so that a large request is not held twice. `name`: of the prepared statement. */
  readonly messages: (name?: string) => readonly Buffer[];
  /** It stores nothing, and fails with 22P02 if the table, or what is needed for it, has changed. */
  readonly checks?: true;
  readonly deletes?: true;
  /** It claims the ids of deliveries (deliveries.ts). */
  readonly claims?: true;
  /** It comes between rows, and stores none. */
  readonly between?: true;
  /** Which row of the transaction a place in its documents is: for a statement that says which rows were stale. */
  readonly rowAt?: (place: number) => number;
  /** It is the short statement of rows that may not be newer (newest-statements.ts). */
  readonly trials?: CountedBackoff;
}

export function stepOf(statement: PreparedStatement, parameters: readonly WireParameter[]): StatementStep {
  return { statement, messages: (name = statement.name) => executeMessages(name, parameters) };
}

/** A statement without parameters that is parsed each time. */
export function namelessStep(statement: string): StatementStep {
  return {
    statement: null,
    messages: () => [parseMessage('', statement, []), ...executeMessages('', [])],
  };
}

/** A step that is always the same. */
export function fixed(step: StatementStep): StatementStep {
  const made = step.messages();
  return { ...step, messages: (name) => (name === undefined ? made : step.messages(name)) };
}

/** `isNameless`: each statement is parsed where it is executed, and depends on nothing that a session remembers. */
export function* executeSteps(steps: readonly StatementStep[], isNameless: boolean): Generator<Buffer> {
  for (const { statement, messages } of steps) {
    if (!isNameless || statement === null) yield* messages();
    else {
      yield statement.nameless;
      yield* messages('');
    }
  }
}

export function* statementsOf(steps: readonly StatementStep[]): Generator<PreparedStatement> {
  for (const { statement } of steps) if (statement !== null) yield statement;
}
