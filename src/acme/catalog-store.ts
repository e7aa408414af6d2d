/**
 * The certificate of several Headgates, sealed in the catalog of their database, and which of them asks for the next one: the one that a row
 * names, for as long as an attempt may take. Takes the results of statements; returns states. Rejects if the database
 * cannot be queried, or contains a value that this master key does not open.
 */
import { createHash, randomUUID } from 'node:crypto';
import { identities } from '../catalog/seals.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { limits } from '../config/limits.ts';
import { nothing, parseState } from './certificate-state.ts';
import type { CertificateState, Store } from './certificate-state.ts';

type AskCatalog = (sql: string, values: readonly unknown[]) => Promise<readonly unknown[]>;

const readSql = 'select seal_id::pg_catalog.text, sealed from headgate.acme where name = $1';
const beginSql = 'select headgate.begin_acme($1, $2, $3) as done';
const keepSql = 'select headgate.keep_acme($1, $2, $3, $4, $5) as done';

/** `of`: the authority and the domains. */
export function storeInCatalog(of: string, sealing: Pick<Sealing, 'open' | 'seal'>, ask: AskCatalog): Store {
  // Identifies this Headgate, for as long as it runs.
  const asker = randomUUID();
  const name = createHash('sha256').update(of).digest('hex');
  const isDone = ([row]: readonly unknown[]) => (row as { done: boolean } | undefined)?.done === true;
  const read = async (): Promise<CertificateState> => {
    const [row] = (await ask(readSql, [name])) as { seal_id: string | null; sealed: string | null }[];
    if (row === undefined || row.seal_id === null || row.sealed === null) return nothing;
    return parseState(sealing.open(row.sealed, identities.acme(row.seal_id)));
  };
  return {
    isShared: true,
    read,
    begin: async () => {
      const seconds = Math.ceil((limits.acmeAttemptMs + limits.acmeKeepMs) / 1_000);
      return isDone(await ask(beginSql, [name, asker, seconds])) ? read() : null;
    },
    keep: async (state, ends) => {
      const id = randomUUID();
      const sealed = sealing.seal(JSON.stringify(state), identities.acme(id));
      return isDone(await ask(keepSql, [name, asker, id, sealed, ends]));
    },
  };
}
