/** Headgate's statements for tests of single rooms: rewritten as by the SQL door, run on a client of their own. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ClientBase } from 'pg';
import { migrate, readMigrations } from '../../src/catalog/migrate.ts';
import { createRewriter } from '../../src/ddl/rewrite.ts';

const rewriteSql = createRewriter({
  ensureCatalog: () => Promise.resolve(),
  releaseDatabase: () => Promise.resolve(),
  now: () => 0,
  hasKey: true,
  firstLook: () => Promise.resolve(),
  seal: (plaintext, identity) => Buffer.from(`${identity}=${plaintext}`).toString('base64'),
  parseExpression: (text) => ({
    text,
    payloadName: null,
    headersRead: [],
    readsAllHeaders: false,
    secretLiterals: [],
    readsBodyAlone: false,
    warnings: [],
    notices: [],
  }),
  parseAnswer: () => ({ payloadName: null, secretsRead: [], secretsShown: [], secretLiterals: new Map() }),
  guards: () => Promise.resolve([]),
  newId: randomUUID,
  demandsOf: () => ({ form: null, cautions: [], changed: null }),
  sendsElsewhere: true,
  spool: () => Promise.resolve({}),
  endpoints: () => Promise.resolve({ base: null, tables: {} }),
  former: () => Promise.resolve({}),
  explain: () => Promise.resolve([]),
  candidate: () => Promise.reject(new Error('no check is compared here')),
  publicUrl: null,
});

/** Runs statements of Headgate's on a database, whose catalog is created if it is missing. */
export async function runOurs(client: ClientBase, sql: string): Promise<void> {
  await migrate(client, readMigrations());
  // The door handles bytes: the text is converted to a latin1 view and back.
  const rewritten = rewriteSql(Buffer.from(sql).toString('latin1'), {
    database: '',
    user: '',
    standardConformingStrings: true,
    clientEncoding: 'UTF8',
  });
  assert(rewritten !== null, "one of the statements is Headgate's");
  if (rewritten.kind === 'error') throw new Error(rewritten.error.message);
  const { sql: text } = rewritten.kind === 'deferred' ? await rewritten.prepare() : rewritten;
  await client.query(Buffer.from(text, 'latin1').toString());
}
