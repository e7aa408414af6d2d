/**
 * The relation that a command reads because its name was given, and whose code that runs. Refuses a name that nothing has, and a reading that runs code of a role that
 * could not act as the session's, unless --trust-owner is given: PostgreSQL runs it with the rights of the session, and READ ONLY does not prevent what it does
 * outside the database. Says which relation is meant if several on the search_path have the name.
 */
import { PlainError } from '../kit/plain-error.ts';
import { relationName, stillNamed } from '../kit/sql-text.ts';
import { plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { othersCodeSql } from '../relations/owner-code.ts';
import type { CommandSession } from './session.ts';
import { perhaps } from './stored-requests.ts';

export interface TrustOptions {
  readonly trustOwner?: boolean;
}

export interface ReadRelation {
  readonly oid: string;
  /** Of pg_class.relkind. */
  readonly kind: string;
  /** `"schema"."table"` */
  readonly name: string;
  /** For FROM: the relation as `t`, or PostgreSQL refuses to plan the statement, because the name means another by then. */
  readonly from: string;
}

/** Must be called outside a transaction. */
export async function readRelation(
  session: CommandSession,
  name: string,
  options: TrustOptions,
  io: Pick<CommandIo, 'note'>,
): Promise<ReadRelation> {
  const oid = await session.relation(name);
  const [row] = await session.rows(
    `SELECT n.nspname::text AS schema, c.relname::text AS "table", c.relkind::text AS kind FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid`,
    [oid],
  );
  if (row === undefined || oid === null)
    throw new PlainError(`there is no table ${plain(name)}${await perhaps(session, name)}`);
  await noteMeant(session, name, oid, io);
  const others = await othersCode(session, oid, options);
  if (others !== null) throw new PlainError(`${plain(name)}: ${others}`);
  const quoted = relationName({ schema: row['schema'] ?? '', table: row['table'] ?? '' });
  return { oid, kind: row['kind'] ?? '', name: quoted, from: `${quoted} t, ${stillNamed(quoted, oid)}` };
}

/** Why a relation is not read; null: it is. */
export async function othersCode(
  session: CommandSession,
  oid: string,
  { trustOwner }: TrustOptions,
): Promise<string | null> {
  if (trustOwner === true) return null;
  const [found] = await session.rows(
    `SELECT o.what, o.owner, session_user::text AS role FROM (${othersCodeSql('$1::pg_catalog.oid')}) AS o LIMIT 1`,
    [oid],
  );
  if (found === undefined) return null;
  const { what, owner, role } = found;
  return plain(
    `reading it runs code of the role ${owner ?? ''} (${what ?? ''}) with the rights of ${role ?? ''}: ` +
      `log in as ${owner ?? ''} (--dsn), or give --trust-owner if you trust that role`,
  );
}

/** Says on standard error which of several relations a name without a schema means: as in psql, that of the first schema. */
async function noteMeant(
  session: CommandSession,
  name: string,
  oid: string,
  { note }: Pick<CommandIo, 'note'>,
): Promise<void> {
  if (name.includes('.')) return;
  const [row] = await session.typed(
    `SELECT n.nspname::pg_catalog.text AS schema FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.oid AND EXISTS (
  SELECT FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) o.relnamespace
  WHERE o.relname OPERATOR(pg_catalog.=) c.relname AND o.oid OPERATOR(pg_catalog.<>) c.oid
    AND s.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.current_schemas(false)))`,
    [oid],
  );
  if (row !== undefined)
    note(`several schemas have ${plain(name)}: this is that of ${plain(row['schema'] ?? '')}\n`);
}
