/**
 * Which rights are missing for rows to be stored in a relation: asked when the relation is read, of the role that has to be allowed to write and of the
 * owner, and named as the GRANT that would give them. A right that is taken away later is found by the commit that fails. Pure; the text runs on PostgreSQL 14 to 18.
 */
import type { Code } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { quoteIdentifier } from '../kit/sql-text.ts';

/** A right that a role does not have. */
export interface MissingRight {
  readonly role: string;
  readonly right: 'USAGE' | 'INSERT' | 'UPDATE' | 'SELECT';
  /** As GRANT names it: `SCHEMA s`, `TABLE s.t`, `SEQUENCE s.q`. */
  readonly on: string;
  /** pg_attribute.attnum of the columns for which it is missing; null: it is not about columns. */
  readonly places: readonly number[] | null;
}

/** What of a RelationRow they depend on. */
interface RelationRights {
  readonly columns: readonly { readonly name: string; readonly place: number }[];
  readonly code: {
    readonly role: string;
    readonly writer: string;
    readonly owner_name: string;
    readonly missing?: readonly MissingRight[] | null;
  };
}

/** MissingRights of the owner and of the roles `names`, as JSON; null: none. `c`, `n`: aliases of pg_class and pg_namespace. */
export function missingRightsSql(c: string, n: string, names: readonly string[]): string {
  const asked = `(r.oid = ${c}.relowner or r.rolname in (${names.join(', ')}))`;
  return `(
    select pg_catalog.json_agg(pg_catalog.json_build_object('role', l.rolname, 'right', l.needed, 'on', l.named, 'places', l.places))
    from (
      select r.rolname, 'USAGE' as needed, pg_catalog.format('SCHEMA %I', ${n}.nspname) as named, null::pg_catalog.int2[] as places
      from pg_catalog.pg_roles r
      where ${asked} and not pg_catalog.has_schema_privilege(r.oid, ${n}.oid, 'USAGE')
      union all
      select r.rolname, p.needed, pg_catalog.format('TABLE %I.%I', ${n}.nspname, ${c}.relname), array(
        select a.attnum from pg_catalog.pg_attribute a where a.attrelid = ${c}.oid and a.attnum > 0 and not a.attisdropped
          and not pg_catalog.has_column_privilege(r.oid, ${c}.oid, a.attnum, p.needed))
      from pg_catalog.pg_roles r cross join (values ('INSERT'), ('UPDATE'), ('SELECT')) as p (needed)
      where ${asked} and not pg_catalog.has_table_privilege(r.oid, ${c}.oid, p.needed)
      union all
      select r.rolname, 'USAGE', pg_catalog.format('SEQUENCE %I.%I', sn.nspname, s.relname), null
      from pg_catalog.pg_roles r
      join pg_catalog.pg_attrdef d on d.adrelid = ${c}.oid
      join pg_catalog.pg_depend p on p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.objid = d.oid
        and p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
      join pg_catalog.pg_class s on s.oid = p.refobjid and s.relkind = 'S'
      join pg_catalog.pg_namespace sn on sn.oid = s.relnamespace
      where ${asked} and not pg_catalog.has_sequence_privilege(r.oid, s.oid, 'USAGE, UPDATE')
    ) as l)`;
}

/** What would have to be granted before rows of this shape can be stored, in one line; null: nothing. `code`: a text if nobody's session may store them. */
export function missingRights(row: RelationRights, shape: Shape, code: Code | string): string | null {
  const { missing, role: own, writer, owner_name: owner } = row.code;
  const needed = neededPlaces(row, shape);
  const session = typeof code === 'string' ? 'writer' : code.as;
  const stores = { writer, owner, headgate: own }[session];
  const isNeeded = ({ role, right, on, places }: MissingRight): boolean => {
    // Whoever stores the rows, the writer has to be allowed to (lock-code.ts).
    if (role !== stores && (role !== writer || right === 'SELECT')) return false;
    // A row may have its own number; for want of the sequence the table counts as one that runs code.
    if (right === 'USAGE') return role === stores && (session === 'writer' || on.startsWith('SCHEMA '));
    return (places ?? []).some((place) => needed[right].has(place));
  };
  const grants = new Map<string, Set<string>>();
  for (const it of missing ?? []) {
    if (!isNeeded(it)) continue;
    const to = `ON ${it.on} TO ${quoteIdentifier(it.role)}`;
    grants.set(to, (grants.get(to) ?? new Set()).add(it.right));
  }
  if (grants.size === 0) return null;
  const statements = [...grants].map(([to, rights]) => `GRANT ${[...rights].join(', ')} ${to}`);
  return `a right that storing its rows takes is missing: ${statements.join('; ')}`;
}

/** ON CONFLICT reads the key, and what it takes from EXCLUDED. */
function neededPlaces({ columns }: RelationRights, { writeMode, columns: written, key }: Shape) {
  const keys = new Set(key.map(({ name }) => name));
  const writes = new Set(written.map(({ name }) => name));
  const places = (is: (name: string) => boolean): ReadonlySet<number> =>
    new Set(columns.flatMap(({ name, place }) => (is(name) ? [place] : [])));
  const replaces = writeMode === 'upsert';
  const isReplaced = (name: string) => replaces && writes.has(name) && !keys.has(name);
  return {
    INSERT: places((name) => writes.has(name)),
    UPDATE: places(isReplaced),
    SELECT: places((name) => isReplaced(name) || ((replaces || writeMode === 'ignore') && keys.has(name))),
  };
}
