/**
 * Creates objects that depend on each other, without knowing how: each statement is tried in a savepoint, and one that misses something
 * is tried again once others have succeeded. Takes an open transaction and statements grouped by place; throws MoveError with the first
 * statement that cannot succeed, and its reason.
 */
import type { Client } from 'pg';
import { sqlstateOf } from '../../engine/sqlstate.ts';
import { PlainError } from '../../kit/plain-error.ts';

/** The move cannot continue; the message is for the terminal. */
export class MoveError extends PlainError {
  override readonly name = 'MoveError';
}

export interface MoveStatement {
  readonly place: number;
  readonly name: string;
  readonly statement: string;
  /** A role that must exist in the target; null or absent: none. */
  readonly role?: string | null;
}

/** Class 42 of SQLSTATE includes names that do not exist (yet). */
const mayComeLater = (sqlstate: string | null) => sqlstate?.startsWith('42') === true;

export async function runStatements(client: Client, statements: readonly MoveStatement[]): Promise<void> {
  for (const place of new Set(statements.map((it) => it.place))) {
    let waiting = statements.filter((it) => it.place === place);
    while (waiting.length > 0) {
      const left: MoveStatement[] = [];
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
async function tryStatement(client: Client, { name, statement }: MoveStatement): Promise<MoveError | null> {
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
