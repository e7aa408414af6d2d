/**
 * What precedes rows of a table that runs code: a lock, and under it the questions whether the table is the one that its requests were
 * checked for, whether the session's role gives its code nothing that its owner does not have, and whether the role that is to
 * be allowed to write still is. PL/pgSQL, as a function or as a block. Texts only.
 */
import { becomes, relatedSql, versionSql } from './owner-code.ts';
import { ownerLoginPrefix } from '../engine/login-names.ts';
import { quoteLiteral } from '../kit/sql-text.ts';

/** The SQLSTATE if a table that takes part belongs to a role whose code would gain rights. */
export const strangersCode = 'HG003';

/** What is asked about a table, as JSON. */
export interface LockedFor {
  readonly relation_name: string;
  readonly relation: number | string;
  /** Its version; null: only the name and the owner are compared. */
  readonly mark: string | null;
  readonly owner: number | string;
  /** The role that must have the privileges `needs`, on the table or on `columns`. */
  readonly writer: string;
  readonly needs: readonly ('INSERT' | 'UPDATE' | 'DELETE')[];
  readonly columns: readonly string[];
}

const given = (name: keyof LockedFor, as = '->>') => `asked OPERATOR(pg_catalog.${as}) '${name}'`;

const variables = `relation_name text := ${given('relation_name')};
  relation oid := (${given('relation')})::pg_catalog.oid;
  mark text := ${given('mark')};
  owner oid := (${given('owner')})::pg_catalog.oid;
  writer name := ${given('writer')};
  names text;
  locked oid[] := '{}';
  stranger name;`;

const changed = (message: string) => `RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = ${message};`;

/**
 * `confirms`: a statement that fails with HG001 if the table is not the one that was meant.
 *
 * Sessions of owners' logins are not guarded against code of other owners: PostgreSQL itself protects no role from what foreign keys lead to (decision 0213). All others
 * are, because they own more than one table's rows, and that of a superuser always: the tables are locked before their owners are asked about.
 */
const body = (confirms: string): string => `
  EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', relation_name, ' IN ROW EXCLUSIVE MODE');
  ${confirms}
  IF NOT pg_catalog.pg_has_role(owner, current_user, ${becomes}) THEN
    ${changed(`'the table has got another owner'`)}
  END IF;
  IF NOT (SELECT pg_catalog.bool_and(pg_catalog.has_table_privilege(writer, relation, p.need) OR p.need OPERATOR(pg_catalog.<>) 'DELETE'
      AND (SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(writer, relation, w.name, p.need)) FROM pg_catalog.jsonb_array_elements_text(${given('columns', '->')}) AS w (name)))
    FROM pg_catalog.jsonb_array_elements_text(${given('needs', '->')}) AS p (need))
  THEN
    ${changed(`pg_catalog.format('role "%s" may not %s there', writer, ${given('needs')})`)}
  END IF;
  IF EXISTS (
    SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) relation
      AND (c.relhassubclass OR c.relispartition OR c.relkind OPERATOR(pg_catalog.<>) 'r' OR c.relhastriggers AND EXISTS (
        SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid OPERATOR(pg_catalog.=) relation AND t.tgconstrrelid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid))
      AND (NOT pg_catalog.starts_with(session_user, '${ownerLoginPrefix}') OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user AND r.rolsuper)))
  THEN
    LOOP
      SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', n.nspname, c.relname), ', ONLY ' ORDER BY c.oid) FILTER (WHERE v.is_joined AND NOT v.is_locked),
        pg_catalog.array_agg(c.oid) FILTER (WHERE v.is_joined),
        pg_catalog.min(pg_catalog.pg_get_userbyid(c.relowner)::pg_catalog.text) FILTER (WHERE NOT pg_catalog.pg_has_role(c.relowner, current_user, ${becomes}))
      INTO names, locked, stranger
      FROM (SELECT r.oid, r.is_joined, r.oid OPERATOR(pg_catalog.=) ANY (locked) AS is_locked FROM ${relatedSql('relation')} AS r) AS v
      CROSS JOIN LATERAL (SELECT s.* FROM pg_catalog.pg_class s WHERE s.oid OPERATOR(pg_catalog.=) v.oid OFFSET 0) AS c
      JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace;
      EXIT WHEN names IS NULL;
      EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', names, ' IN ROW SHARE MODE');
    END LOOP;
    IF stranger IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = '${strangersCode}', MESSAGE = pg_catalog.format(
        'its rows run code of role "%s" with the rights of role "%s" (foreign keys, partitions, views): give the table to a role that is no superuser',
        stranger, current_user);
    END IF;
  END IF;`;

/** The function of the schema `headgate`, which returns the number of the transaction. */
export const holdCodeFunction = `
CREATE OR REPLACE FUNCTION headgate.hold_code(asked jsonb) RETURNS text
LANGUAGE plpgsql AS ${quoteLiteral(`
#variable_conflict use_variable
DECLARE
  ${variables}
BEGIN${body('PERFORM headgate.confirm(relation_name, relation, mark, owner);')}
  RETURN pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id());
END`)};
`;

/** The same as a block, where there is no schema `headgate`; returns nothing. */
export function holdCodeBlock(asked: LockedFor): string {
  const confirms = `IF pg_catalog.to_regclass(relation_name)::pg_catalog.oid OPERATOR(pg_catalog.=) relation IS NOT TRUE OR NOT EXISTS (
      SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) relation AND c.relowner OPERATOR(pg_catalog.=) owner
        AND (mark IS NULL OR ${versionSql('c')} OPERATOR(pg_catalog.=) mark))
  THEN
    ${changed(`'the table has changed since the request was checked'`)}
  END IF;`;
  const block = `
#variable_conflict use_variable
DECLARE
  asked jsonb := ${quoteLiteral(JSON.stringify(asked))};
  ${variables}
BEGIN${body(confirms)}
END`;
  return `do language plpgsql ${quoteLiteral(block)}`;
}
