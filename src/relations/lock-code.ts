/**
 * What precedes rows of a table that runs code: a lock, and under it the questions whether the table is the one that its requests were
 * checked for, whether the session's role gives its code nothing that its owner does not have, and whether the role that is to
 * be allowed to write still is. PL/pgSQL, as a function or as a block. Texts only.
 */
import { becomes, lookedIntoSql, involvedSql, ownersSql, versionSql } from './owner-code.ts';
import { quoteLiteral } from '../kit/sql-text.ts';

/** The SQLSTATE if a table that takes part belongs to a role whose code would gain rights. */
export const strangersCode = 'HG003';

/**
 * `guarded`: the session is Headgate's own; that of a superuser is always guarded. Foreign keys lead to tables of other owners, whose code runs
 * when PostgreSQL plans the lookup, and what it leaves for COMMIT would run with the rights of the session: the tables are locked before their
 * owners are asked about. PostgreSQL itself protects no role from that (decision 0213), and here those are protected that own more than one table's rows.
 *
 * `needs`: privileges that the role `writer` must have, on the table or on `columns` (null: on the table).
 */
const parameters = {
  relation_name: 'text',
  relation: 'oid',
  mark: 'text',
  owner: 'oid',
  writer: 'name',
  needs: 'text[]',
  columns: 'text[]',
  guarded: 'boolean',
} as const;

const changed = (message: string) => `RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = ${message};`;

/** `confirms`: a statement that fails with HG001 if the table is not the one that was meant. */
const body = (confirms: string): string => `
  EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', relation_name, ' IN ROW EXCLUSIVE MODE');
  ${confirms}
  IF NOT pg_catalog.pg_has_role(owner, current_user, ${becomes}) THEN
    ${changed(`'the table has got another owner'`)}
  END IF;
  IF NOT (SELECT pg_catalog.bool_and(pg_catalog.has_table_privilege(writer, relation, p.need) OR p.need OPERATOR(pg_catalog.<>) 'DELETE'
      AND (SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(writer, relation, w.name, p.need)) FROM pg_catalog.unnest(columns) AS w (name)))
    FROM pg_catalog.unnest(needs) AS p (need))
  THEN
    ${changed(`pg_catalog.format('role "%s" may not %s there', writer, pg_catalog.array_to_string(needs, ', '))`)}
  END IF;
  IF EXISTS (
    SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) relation
      AND (c.relhassubclass OR c.relispartition OR c.relkind OPERATOR(pg_catalog.<>) 'r' OR c.relhastriggers AND EXISTS (
        SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid OPERATOR(pg_catalog.=) relation AND t.tgconstrrelid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid))
      AND (guarded OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user AND r.rolsuper)))
  THEN
    LOOP
      SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', n.nspname, c.relname), ', ONLY ' ORDER BY c.oid), pg_catalog.array_agg(c.oid)
      INTO names, found
      FROM (${lookedIntoSql('relation')} EXCEPT ${involvedSql('relation')}) AS v
      JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) v.oid JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
      WHERE c.oid OPERATOR(pg_catalog.<>) ALL (locked);
      EXIT WHEN names IS NULL;
      EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', names, ' IN ROW SHARE MODE');
      locked := locked OPERATOR(pg_catalog.||) found;
    END LOOP;
    SELECT o.name INTO stranger FROM (${ownersSql(lookedIntoSql('relation'))}) AS o
    WHERE NOT pg_catalog.pg_has_role(o.relowner, current_user, ${becomes}) ORDER BY o.name LIMIT 1;
    IF stranger IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = '${strangersCode}', MESSAGE = pg_catalog.format(
        'its rows run code of role "%s" with the rights of role "%s" (foreign keys, partitions, views): give the table to a role that is no superuser',
        stranger, current_user);
    END IF;
  END IF;`;

const variables = `names text;
  found oid[];
  locked oid[] := '{}';
  stranger name;`;

/** The function of the schema `headgate`, which returns the number of the transaction. */
export const holdCodeFunction = `
CREATE OR REPLACE FUNCTION headgate.hold_code(${Object.entries(parameters)
  .map(([name, type]) => `${name} ${type}`)
  .join(', ')}) RETURNS text
LANGUAGE plpgsql AS ${quoteLiteral(`
#variable_conflict use_variable
DECLARE
  ${variables}
BEGIN${body('PERFORM headgate.confirm(relation_name, relation, mark, owner);')}
  RETURN pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id());
END`)};
`;

/** Values of the parameters; a list is written as PostgreSQL writes arrays. */
export type LockCodeParameters = Readonly<Record<keyof typeof parameters, string | null>>;

/** In their order, for `select headgate.hold_code($1, …)`. */
export const heldNames = Object.keys(parameters) as readonly (keyof typeof parameters)[];

/** The same as a block, where there is no schema `headgate`; returns nothing. Without a mark only the name and the owner are compared. */
export function holdCodeBlock(held: LockCodeParameters): string {
  const declared = Object.entries(parameters).map(([name, type]) => {
    const value = held[name as keyof typeof parameters];
    return `${name} ${type} := ${value === null ? 'NULL' : quoteLiteral(value)};`;
  });
  const confirms = `IF pg_catalog.to_regclass(relation_name)::pg_catalog.oid OPERATOR(pg_catalog.=) relation IS NOT TRUE OR NOT EXISTS (
      SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) relation AND c.relowner OPERATOR(pg_catalog.=) owner
        AND (mark IS NULL OR ${versionSql('c')} OPERATOR(pg_catalog.=) mark))
  THEN
    ${changed(`'the table has changed since the request was checked'`)}
  END IF;`;
  const block = `
#variable_conflict use_variable
DECLARE
  ${declared.join('\n  ')}
  ${variables}
BEGIN${body(confirms)}
END`;
  return `do language plpgsql ${quoteLiteral(block)}`;
}
