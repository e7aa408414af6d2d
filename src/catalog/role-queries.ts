/**
 * What statements, the console and signing ask about the tables of one role: which it owns or may look at, what guards them, and which secrets it may use.
 * Takes the names of roles and tables as they are; returns rows, oids, and opened checks for one answer; throws Refused, or the engine's error.
 */
import type { ClientBase } from 'pg';
import { quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import type { TableAnswers } from '../types/answers.ts';
import { dedupeOf } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import type { Intake, Target } from '../types/target.ts';
import { formatOf } from './catalog-rows.ts';
import type { CatalogRow, FoundSecret } from './catalog-rows.ts';
import type { Catalog } from './catalog.ts';
import { oidsOf, pinned, readTables } from './queries.ts';
import { openCheck } from './seals.ts';
import { makeAnswers, noAnswers, openSource } from './table-compiler.ts';
import type { CheckSource } from './table-compiler.ts';
import { methodsOf, shapeProblem } from './target.ts';

export interface CatalogTableQuery {
  readonly database: string;
  readonly user: string;
  /** null: in any schema. */
  readonly schema: string | null;
  readonly table: string;
}

export interface CatalogTable extends TableName {
  /** pg_class.oid */
  readonly oid: number;
  /** Why the table cannot be used; null: it can. */
  readonly unusable: string | null;
  /** null: no VALIDATE, or it does not open. */
  readonly source: CheckSource | null;
  /** null: no ANSWER. */
  readonly answers: TableAnswers | null;
  /** null: every request is stored. */
  readonly dedupe: Dedupe | null;
  /** undefined: POST alone. */
  readonly methods?: Target['methods'];
}

export interface Signing {
  /** Secrets of the table's check that the role may not use; nothing is opened then. */
  readonly foreignSecrets: readonly string[];
  /** null: no VALIDATE. */
  readonly source: CheckSource | null;
}

export interface ShownTable {
  readonly oid: number;
  /** A CatalogRow as JSON; null: the row was too large to be read. */
  readonly source: string | null;
  /** Why the table cannot be used; null: it can. */
  readonly unusable: string | null;
}

/** What an UNCHECKED answer is judged against, for a statement that adds one. */
export interface GuardedTable {
  readonly format: Intake['format'];
  /** null: no VALIDATE. */
  readonly validate: { readonly expression: string; readonly secrets: readonly string[] } | null;
}

type Opened = Pick<Catalog, 'client' | 'compiler'>;

/** For EXPLAIN VALIDATE: all tables of that name that `user` owns or may look at, opened for this one answer. */
export async function tablesToExplain(
  databases: Opened,
  question: CatalogTableQuery,
): Promise<readonly CatalogTable[]> {
  const { database } = question;
  const { compiler } = databases;
  return (await ownedTables(databases, question, 'seen')).map((row) => {
    const name = { oid: row.relation, database, schema: row.schema_name, table: row.table_name };
    const unusable = shapeProblem(row);
    try {
      const source = openSource(row, compiler);
      const { made: answers } = unusable === null ? makeAnswers(row, compiler) : noAnswers;
      return { ...name, unusable, source, answers, dedupe: dedupeOf(row.options), methods: methodsOf(row) };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { ...name, unusable: reason, source: null, answers: null, dedupe: null };
    }
  });
}

/** The check that signs for a table, opened for this one request; null: the table does not exist, or is not `user`'s. */
export async function signingOf(
  databases: Opened,
  question: CatalogTableQuery & { readonly schema: string },
): Promise<Signing | null> {
  const [row] = await ownedTables(databases, question, 'owned');
  if (row === undefined) return null;
  const client = await databases.client(question.database);
  const foreign = await readForeignSecrets(client, question.user, row.relation);
  const source = foreign.length > 0 ? null : openSource(row, databases.compiler);
  return { foreignSecrets: foreign.map(({ name }) => name), source };
}

/** The checks that an UNCHECKED answer of a table is judged against. */
export async function guardsOf(
  databases: Opened,
  question: CatalogTableQuery,
): Promise<readonly GuardedTable[]> {
  return (await ownedTables(databases, question, 'owned')).map((row) => {
    const format = formatOf(row.options);
    if (row.expression === null) return { format, validate: null };
    const secrets = row.secrets.map(({ alias }) => alias);
    return { format, validate: { expression: openCheck(row, databases.compiler), secrets } };
  });
}

/**
 * The webhook tables, by oid, whose owner `user` is or can become, and 0, for the owner of the schema headgate; `seen`: and those that `user` may look at
 * without owning them.
 */
export async function ownedBy(
  databases: Pick<Catalog, 'client'>,
  { database, user }: Pick<CatalogTableQuery, 'database' | 'user'>,
  how: 'owned' | 'seen',
): Promise<ReadonlySet<number>> {
  return new Set(await readOwnedBy(await databases.client(database), user, how));
}

/** What may be shown of these tables, as the catalog is when it is called. */
export async function shownOf(
  databases: Pick<Catalog, 'get'>,
  database: string,
  oids: ReadonlySet<number>,
): Promise<readonly ShownTable[]> {
  await databases.get(database)?.upToDate();
  const snapshot = databases.get(database)?.tables.snapshot;
  const tables = [...(snapshot?.tables ?? [])].filter(([, { oid }]) => oids.has(oid));
  return tables.map(([key, { oid }]) => ({
    oid,
    source: snapshot?.sources.get(key) ?? null,
    unusable: snapshot?.unusable.get(key) ?? null,
  }));
}

/** As headgate.sees_table() says it of a session: whether the role `r` is a reader of the table `c`, whose options `w` has. */
const mayLook = `w.options operator(pg_catalog.?) 'readers' and pg_catalog.has_table_privilege(r.oid, c.oid, 'SELECT') and exists (
      select from headgate.readers_in(w.options operator(pg_catalog.->>) 'readers') n (name) where n.name = 'public' or exists (
        select from pg_catalog.pg_roles g where g.rolname = n.name and pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER')))`;

/** The tables of that name that `user` may own, or at least look at, as they are committed. Throws 55P03 if somebody keeps one locked. */
export async function ownedTables(
  databases: Pick<Catalog, 'client'>,
  { database, user, schema, table }: CatalogTableQuery,
  how: 'owned' | 'seen',
): Promise<readonly CatalogRow[]> {
  const client = await databases.client(database);
  const inSchema = schema === null ? '' : `and s.schema_name = ${quoteLiteral(schema)}`;
  const oids = await oidsOf(
    client,
    `select s.relation from headgate.catalog_sizes s
    join pg_catalog.pg_class c on c.oid = s.relation
    join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where s.fits and s.table_name = ${quoteLiteral(table)} ${inSchema}
      and (pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')
        ${how === 'owned' ? '' : `or exists (select from headgate.webhook_table w where w.relation = c.oid and ${mayLook})`}) order by s.schema_name limit ${limits.explainTablesMax}`,
  );
  const { rows } = await readTables(client, oids);
  return rows.toSorted((a, b) => (a.schema_name < b.schema_name ? -1 : 1));
}

function readOwnedBy(client: ClientBase, user: string, how: 'owned' | 'seen'): Promise<number[]> {
  const role = `pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}`;
  return oidsOf(
    client,
    `select c.oid as relation from headgate.webhook_table w join pg_catalog.pg_class c on c.oid = w.relation join ${role}
    where pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER') ${how === 'seen' ? `or ${mayLook}` : ''}
    union all select 0 from pg_catalog.pg_namespace n join ${role}
    where n.nspname = 'headgate' and pg_catalog.pg_has_role(r.oid, n.nspowner, 'MEMBER')`,
  );
}

/** Secrets of a table's check that `user` may not use himself, whoever created the table. */
function readForeignSecrets(
  client: ClientBase,
  user: string,
  relation: number,
): Promise<readonly { readonly name: string }[]> {
  return pinned(
    client,
    `select s.name from headgate.webhook_table_secret b
    join headgate.secret s on s.id = b.secret_id
    left join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where b.relation = ${relation} and headgate.may_use(r.oid, s.owner_oid) is not true
    order by b.position`,
  );
}

/** Secrets by id, and whether the role with this oid may use them. `version`: as headgate.open_kept() says it. */
export function readSecrets(
  client: ClientBase,
  me: number,
  ids: readonly string[],
): Promise<readonly FoundSecret[]> {
  return pinned(
    client,
    `select s.id::text, s.name, s.seal_id::text, s.sealed, s.owner, extract(epoch from s.altered_at)::text as version,
      headgate.may_use(${me}::oid, s.owner_oid) is true as usable
    from headgate.secret s where s.id = any (${quoteLiteral(`{${ids.join(',')}}`)}::uuid[])`,
  );
}
