/** What a transaction is made of: statements with their parameters, as they are sent. Pure. */
import type { CountedBackoff } from './counted-backoff.ts';
import type { PreparedStatement } from './prepared.ts';

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
