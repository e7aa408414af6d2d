/**
 * What a client that follows the server's log may request: one that has connected with the parameter `replication` and is not a superuser.
 * Takes the text of a Query, returns the refusal or null; refuses with 42501. The commands are those of PostgreSQL's repl_gram.y, which
 * reads their first word case-insensitively. A copy of the server, and its log as it is written, contain every database, the passwords of
 * all roles and what Headgate has sealed.
 */
import type { SqlError } from '../errors/refusals.ts';

const space = '[ \\t\\n\\r\\f\\v]';
const name = `(?:"[^"]*"|[^ \\t\\n\\r\\f\\v"]+)`;
const matcher = (...words: readonly string[]): RegExp =>
  new RegExp(`^${space}*${words.join(`${space}+`)}`, 'i');

const command = matcher(
  '(BASE_BACKUP|UPLOAD_MANIFEST|START_REPLICATION|CREATE_REPLICATION_SLOT)(?![A-Z0-9_$\\x80-\\xff])',
);
const streamsChanges = matcher('START_REPLICATION', 'SLOT', name, `LOGICAL${space}`);
const ofPublications = matcher(
  'CREATE_REPLICATION_SLOT',
  name,
  `(?:TEMPORARY${space}+)?LOGICAL`,
  `"?pgoutput"?(?:${space}|[;(]|$)`,
);

const refused = (message: string, hint: string): SqlError => ({ sqlstate: '42501', message, hint });

const copies = refused(
  'only superusers may copy the server through this port',
  'A role with REPLICATION follows publications here (START_REPLICATION SLOT … LOGICAL).',
);
const plugins = refused(
  'only superusers may make slots of this kind through this port',
  'Make a logical slot with the plugin pgoutput, which reads publications.',
);

/** `sql`: a latin1 view of its bytes. `publishedOnly`: slots are only for publications. */
export function followerRefused(sql: string, publishedOnly: boolean): SqlError | null {
  switch (command.exec(sql)?.[1]?.toUpperCase()) {
    case undefined:
      return null;
    case 'START_REPLICATION':
      return streamsChanges.test(sql) ? null : copies;
    case 'CREATE_REPLICATION_SLOT':
      return !publishedOnly || ofPublications.test(sql) ? null : plugins;
    default:
      return copies;
  }
}
