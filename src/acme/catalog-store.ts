/**
 * The certificate of several Headgates, sealed in the catalog of their database, and which of them asks for the next one: the one that a row
 * names, for as long as an attempt may take. Takes the results of statements; returns states. Rejects if the database
 * cannot be queried, or contains a value that this master key does not open.
 */
import { createHash } from 'node:crypto';
import { limits } from '../config/limits.ts';
import { nothing, parseState } from './state.ts';
import type { State } from './state.ts';
import type { Store } from './store.ts';

export interface SharedDeps {
  /** The authority and the domains. */
  readonly of: string;
  /** Identifies this Headgate, for as long as it runs. */
  readonly asker: string;
  readonly newId: () => string;
  readonly open: (sealed: string, sealId: string) => string;
  readonly seal: (text: string, sealId: string) => string;
  readonly ask: (sql: string, values: readonly unknown[]) => Promise<readonly unknown[]>;
}

const readSql = 'select seal_id::pg_catalog.text, sealed from headgate.acme where name = $1';
const beginSql = 'select headgate.begin_acme($1, $2, $3) as done';
const keepSql = 'select headgate.keep_acme($1, $2, $3, $4, $5) as done';

export function storeInCatalog({ of, asker, newId, open, seal, ask }: SharedDeps): Store {
  const name = createHash('sha256').update(of).digest('hex');
  const isDone = ([row]: readonly unknown[]) => (row as { done: boolean } | undefined)?.done === true;
  const read = async (): Promise<State> => {
    const [row] = (await ask(readSql, [name])) as { seal_id: string | null; sealed: string | null }[];
    if (row === undefined || row.seal_id === null || row.sealed === null) return nothing;
    return parseState(open(row.sealed, row.seal_id));
  };
  return {
    isShared: true,
    read,
    begin: async () => {
      const seconds = Math.ceil((limits.acmeAttemptMs + limits.acmeKeepMs) / 1_000);
      return isDone(await ask(beginSql, [name, asker, seconds])) ? read() : null;
    },
    keep: async (state, ends) => {
      const id = newId();
      return isDone(await ask(keepSql, [name, asker, id, seal(JSON.stringify(state), id), ends]));
    },
  };
}
