/**
 * What the target of a move lacks: rights of its role, extensions, a version, and names that are taken. Takes both sides; returns a sentence
 * for each, with the statement that helps; touches nothing.
 */
import { readOnlyReason } from '../../engine/writability.ts';
import { quoteIdentifier as quote } from '../../kit/sql-text.ts';
import type { Sides } from './rows.ts';
import { wantedThere } from './source-sql.ts';

interface Wanted {
  readonly kind: 'schema' | 'extension' | 'relation' | 'virtual column' | 'owner';
  readonly name: string;
  readonly schema: string;
}

/** Sessions of both sides have the search_path pg_catalog. */
const targetSql = `SELECT current_user::text AS role, current_database()::text AS database,
  current_setting('server_version_num')::int AS version, r.rolsuper AS superuser,
  has_database_privilege(current_database(), 'CREATE') AS creates_schemas,
  to_regclass('headgate_move.source') IS NOT NULL AS continues
FROM pg_roles r WHERE r.rolname = current_user`;

interface MoveTarget {
  readonly role: string;
  readonly database: string;
  readonly version: number;
  readonly superuser: boolean;
  readonly creates_schemas: boolean;
  /** A move was interrupted. */
  readonly continues: boolean;
}

export async function targetLacks({ source, target }: Sides): Promise<string[]> {
  const { rows: is } = await target.query<MoveTarget>(targetSql);
  const [there] = is;
  if (there === undefined) return [];
  const { rows: wanted } = await source.query<Wanted>(wantedThere);
  const named = (kind: Wanted['kind']) => wanted.filter((it) => it.kind === kind).map(({ name }) => name);
  const role = quote(there.role);
  const lacks: string[] = [];
  const refuses = await readOnlyReason(target);
  if (refuses === 'standby') lacks.push('the server is a standby: name its primary');
  if (refuses === 'read-only')
    lacks.push('nothing can be written there: default_transaction_read_only is on');
  if (!there.creates_schemas)
    lacks.push(
      `role ${role} may not create schemas: let the owner of the database run GRANT CREATE ON DATABASE ${quote(there.database)} TO ${role}`,
    );
  const { rows: schemas } = await target.query<{ name: string }>(
    `SELECT n.nspname AS name FROM pg_namespace n WHERE n.nspname = ANY ($1)
       AND NOT (has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE'))`,
    [named('schema')],
  );
  for (const { name } of schemas)
    lacks.push(
      `role ${role} may not create in schema ${quote(name)}: let its owner run GRANT USAGE, CREATE ON SCHEMA ${quote(name)} TO ${role}`,
    );
  const of = (kind: Wanted['kind']) => wanted.filter((it) => it.kind === kind);
  lacks.push(...(await missingExtensions(target, of('extension'), there)));
  lacks.push(...(await missingOwners(target, of('owner'), there)));
  if (there.version < 180_000)
    for (const name of named('virtual column'))
      lacks.push(`${name} is a virtual generated column, which needs PostgreSQL 18`);
  if (!there.continues) {
    const { rows: taken } = await target.query<{ name: string }>(
      'SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NOT NULL',
      [named('relation')],
    );
    for (const { name } of taken)
      lacks.push(`${name} exists there already: drop it, or move to an empty database`);
  }
  return lacks;
}

async function missingExtensions(
  target: Sides['target'],
  extensions: readonly Wanted[],
  { superuser, database }: MoveTarget,
): Promise<string[]> {
  const { rows } = await target.query<{ name: string; schema: string; available: boolean; makes: boolean }>(
    `SELECT name, schema, a.name IS NOT NULL AS available, $3 OR EXISTS (
         SELECT FROM pg_available_extension_versions v WHERE v.name = e.name AND v.version = a.default_version AND (v.trusted OR NOT v.superuser)
       ) AS makes
     FROM unnest($1::text[], $2::text[]) AS e (name, schema) LEFT JOIN pg_available_extensions a USING (name)
     WHERE NOT EXISTS (SELECT FROM pg_extension x WHERE x.extname = e.name)`,
    [extensions.map(({ name }) => name), extensions.map(({ schema }) => schema), superuser],
  );
  return rows.flatMap(({ name, schema, available, makes }) => {
    if (!available) return [`the server does not have the extension ${quote(name)}: install it there`];
    if (makes) return [];
    return [
      `only a superuser may create the extension ${quote(name)}: let one run ` +
        `CREATE EXTENSION ${quote(name)} SCHEMA ${quote(schema)} in database ${quote(database)}`,
    ];
  });
}

/** An object can be given only to a role that the giver may become, and that may create in its schema. */
async function missingOwners(
  target: Sides['target'],
  owners: readonly Wanted[],
  { role }: MoveTarget,
): Promise<string[]> {
  const { rows } = await target.query<{ name: string; schema: string; becomes: boolean; creates: boolean }>(
    `SELECT r.rolname AS name, e.schema, pg_has_role(r.oid, 'MEMBER') AS becomes,
       n.oid IS NULL OR has_schema_privilege(r.oid, n.oid, 'CREATE') AS creates
     FROM unnest($1::text[], $2::text[]) AS e (name, schema) JOIN pg_roles r ON r.rolname = e.name
     LEFT JOIN pg_namespace n ON n.nspname = e.schema ORDER BY 1, 2`,
    [owners.map(({ name }) => name), owners.map(({ schema }) => schema)],
  );
  const lacks = rows.flatMap(({ name, schema, becomes, creates }) => [
    ...(becomes
      ? []
      : [
          `role ${quote(role)} may not give objects to role ${quote(name)}: let a superuser run GRANT ${quote(name)} TO ${quote(role)}`,
        ]),
    ...(creates
      ? []
      : [
          `role ${quote(name)}, which owns objects in schema ${quote(schema)}, may not create there: ` +
            `let its owner run GRANT CREATE ON SCHEMA ${quote(schema)} TO ${quote(name)}`,
        ]),
  ]);
  return [...new Set(lacks)];
}
