/**
 * `headgate secrets reveal`: shows a secret that a sender has sent, for the one place where a person has to type it (Notion's
 * settings). It works once: afterwards the secret is never shown again. Takes Settings, which lead to the master key; throws the
 * reason if it fails.
 */
import { Client } from 'pg';
import { readRights, refuseUntrusted } from '../catalog/rights.ts';
import { identities } from '../catalog/seals.ts';
import { hangUp } from '../engine/close-client.ts';
import { masterKeys } from '../secrets/key-ring.ts';
import { MasterKeyError } from '../secrets/key-file.ts';
import { createSealing } from '../secrets/sealing.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { openCommandEngine } from '../engine/command-engine.ts';

/** `name` of the secret, optionally with its schema (`public` by default). `database` null: the default one. */
export async function revealSecret(
  settings: Settings,
  name: string,
  database: string | null,
): Promise<string> {
  const dot = name.indexOf('.');
  const schema = dot < 0 ? 'public' : name.slice(0, dot);
  const secret = name.slice(dot + 1);
  const engine = await openCommandEngine(settings);
  try {
    const sealing = createSealing(masterKeys(settings));
    const client = new Client({
      ...engine.clientConfig(database ?? engine.defaultDatabase ?? 'dev'),
      connectionTimeoutMillis: limits.catalogWaitMs,
      query_timeout: limits.catalogWaitMs,
    });
    client.on('error', () => undefined);
    await client.connect();
    try {
      refuseUntrusted(await readRights(client));
      // If it does not open, it does not count as revealed.
      await client.query('begin');
      const { rows } = await client.query<{ seal_id: string; sealed: string }>(
        'select seal_id::pg_catalog.text, sealed from headgate.reveal_learned($1, $2)',
        [schema, secret],
      );
      const [found] = rows;
      if (found === undefined)
        throw new MasterKeyError(`secret ${schema}.${secret} was not learned, or was revealed before`);
      const value = sealing.open(found.sealed, identities.secret(secret, found.seal_id));
      await client.query('commit');
      return value;
    } finally {
      await hangUp(client);
    }
  } finally {
    await engine.close();
  }
}
