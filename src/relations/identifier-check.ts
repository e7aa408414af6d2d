/**
 * A value that PostgreSQL cannot read (22P02) unless a name means the relation with an oid, and has meant it since the statement began: a domain, and the
 * functions that its check calls, in the schema `headgate` and in that of the gateway's functions. Texts only.
 *
 * A schema has no lock and can be renamed at any moment, and so can a table that the statement does not hold, so that a name means another relation: a table with
 * triggers or rules, or with defaults, which PostgreSQL evaluates first of all when it plans an INSERT. A literal of an array of the domain is read,
 * and its elements are checked, when a statement is parsed: after the relation before it was opened, and before anything is rewritten or planned. (The check of a
 * literal of the domain itself comes later.) Of two states of the catalog, before the relation was opened and after, both have the same rows under
 * that name: whoever has renamed something and renamed it back in between has written them anew.
 */

/** `at`: STABLE is the state when the statement began, VOLATILE that of the moment. The value is the oid, a space, and the name with quotes. */
const named = (schema: string, name: string, at: 'STABLE' | 'VOLATILE'): string => `
CREATE OR REPLACE FUNCTION ${schema}.${name}(value text) RETURNS text
LANGUAGE plpgsql ${at} AS $body$
BEGIN
  RETURN (SELECT pg_catalog.concat(c.xmin, ' ', n.xmin) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.split_part(value, ' ', 1)::pg_catalog.oid
      AND pg_catalog.concat(c.oid, ' "', pg_catalog.replace(n.nspname::pg_catalog.text, '"', '""'), '"."',
        pg_catalog.replace(c.relname::pg_catalog.text, '"', '""'), '"') OPERATOR(pg_catalog.=) value);
END
$body$;`;

/** Made anew with the functions of its schema; the domain stays if it is there. */
export const namedRelation = (
  schema: string,
): string => `${named(schema, 'named_before', 'STABLE')}${named(schema, 'named_now', 'VOLATILE')}
DO $body$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typname OPERATOR(pg_catalog.=) 'named_relation'
    AND t.typnamespace OPERATOR(pg_catalog.=) '${schema}'::pg_catalog.regnamespace)
  THEN
    CREATE DOMAIN ${schema}.named_relation AS pg_catalog.text CHECK ((CASE WHEN ${schema}.named_before(VALUE) OPERATOR(pg_catalog.=) ${schema}.named_now(VALUE)
      THEN 'true' ELSE 'elsewhere' END)::pg_catalog.text::pg_catalog.bool);
  END IF;
END
$body$;
`;
