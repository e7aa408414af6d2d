/**
 * Makes objects that need each other without knowing how: each statement is tried in a savepoint, and one that misses something is
 * tried again when others are there. Takes an open transaction and statements in places; throws MoveError with the first one that cannot
 * be made, and its reason.
 */
import type { Client } from 'pg';
import { sqlstateOf } from '../../engine/sqlstate.ts';
import { PlainError } from '../../kit/plain-error.ts';

/** The move cannot go on; the message is for the terminal. */
export class MoveError extends PlainError {
  override readonly name = 'MoveError';
}

export interface Statement {
  readonly place: number;
  readonly name: string;
  readonly statement: string;
  /** Has to exist on the other side; null or absent: none. */
  readonly role?: string | null;
}

/** Class 42 of SQLSTATE: a name that is not there (yet) is one of them. */
const mayComeLater = (sqlstate: string | null) => sqlstate?.startsWith('42') === true;

export async function runStatements(client: Client, statements: readonly Statement[]): Promise<void> {
  for (const place of new Set(statements.map((it) => it.place))) {
    let waiting = statements.filter((it) => it.place === place);
    while (waiting.length > 0) {
      const left: Statement[] = [];
      let first: MoveError | null = null;
      for (const it of waiting) {
        const error = await tryStatement(client, it);
        if (error === null) continue;
        first ??= error;
        left.push(it);
      }
      if (first !== null && left.length === waiting.length) throw first;
      waiting = left;
    }
  }
}

/** null: done. */
async function tryStatement(client: Client, { name, statement }: Statement): Promise<MoveError | null> {
  await client.query('savepoint one');
  try {
    await client.query(statement);
    await client.query('release savepoint one');
    return null;
  } catch (error) {
    await client.query('rollback to savepoint one');
    const refused = new MoveError(`${name} cannot be created in the target: ${(error as Error).message}`);
    if (mayComeLater(sqlstateOf(error))) return refused;
    throw refused;
  }
}
