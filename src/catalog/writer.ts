/**
 * Lets the role in that stores rows of tables without code: on Headgate's own engine `headgate_commit`, on others Headgate's role is that
 * role (functions/writer.sql). Takes a connection to a database with the catalog; throws the engine's error.
 */
import type { ClientBase } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { writerName } from '../engine/login-names.ts';
import { makeWriterSql } from '../engine/owner-logins.ts';
import { pinned } from './queries.ts';

export async function letWriterIn(client: ClientBase, kind: Engine['kind']): Promise<void> {
  if (kind === 'embedded') {
    await pinned(client, makeWriterSql);
    await pinned(client, `call headgate.let_writer_in('${writerName}')`);
    return;
  }
  const [known] = await pinned(client, 'select name from headgate.writer_role');
  // The database was restored from one of such an engine.
  if (known !== undefined) await pinned(client, 'call headgate.let_writer_in(null)');
}
