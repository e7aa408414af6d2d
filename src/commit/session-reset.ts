/**
 * What a transaction needs besides its rows' own statements because of code that runs in its session; pure: the search_path in a
 * session that others use, too, what is cleaned up there, and the savepoints that end the units of one transaction.
 */
import { quoteLiteral } from '../kit/sql-text.ts';
import type { Target } from '../types/target.ts';
import type { SessionFacts } from './commit-connection.ts';
import { cleanUpStatements, forCitus, safePath } from './statements.ts';
import { executeMessages, parseMessage, queryMessage } from './wire-message.ts';
import { isPlain } from './commit-connection.ts';

/** Messages that are always the same, and the number of their statements. */
export interface ResetSettings {
  readonly messages: readonly Buffer[];
  readonly count: number;
}

export const nothing: ResetSettings = { messages: [], count: 0 };

function inOrder(...statements: readonly string[]): ResetSettings {
  const messages = statements.flatMap((sql) => [parseMessage('', sql, []), ...executeMessages('', [])]);
  return { messages, count: statements.length };
}

/** The settings of a session that others use are not known: the path is set before anything is parsed. */
export const pathIsSafe = inOrder(
  `select pg_catalog.set_config('search_path', '${safePath}', true), ${forCitus(true)}`,
);

/** Others use the session next: what code has left in it is removed in its own transaction. */
export const cleanUp = (commit: string): ResetSettings => inOrder(...cleanUpStatements(commit));

export const savepoint = 'headgate';

/**
 * After a unit that succeeded this marks its end, and after one that failed it fails, too: either way rolling back
 * to the latest mark keeps exactly the units that succeeded. Code that fires late sees the path that other code has seen.
 */
export function markOf(
  target: Target,
  facts: SessionFacts,
): { readonly message: Buffer; readonly count: number } {
  const mark = `savepoint ${savepoint}`;
  const fire = 'set constraints all immediate';
  const inTurn = (...all: readonly string[]) => ({
    message: queryMessage(all.join('; ')),
    count: all.length,
  });
  if (isPlain(target)) return inTurn(fire, mark);
  const path = (to: string) => `select pg_catalog.set_config('search_path', ${quoteLiteral(to)}, true)`;
  return inTurn(path(facts.path), fire, path(safePath), mark);
}
