-- What Headgate knows of a table in addition to its shape, which is read from PostgreSQL's own catalog (relations/relations-sql.ts).
CREATE OR REPLACE VIEW headgate.catalog_rows AS
SELECT
  c.oid AS relation,
  n.nspname::text AS schema_name,
  c.relname::text AS table_name,
  w.payload,
  w.options,
  w.document IS NOT NULL AS takes_document,
  -- NULL if it no longer exists.
  headgate.placed(c.oid, w.document)::text AS document,
  included.columns AS includes,
  w.expression,
  w.sealed_expression,
  w.seal_id,
  coalesce(bound.secrets, '[]') AS secrets,
  -- NULL if none was chosen, or it no longer exists.
  headgate.placed(c.oid, w.collect)::text AS collect,
  -- The secret that says where its rows go; NULL: they stay here. `trusted`: it belongs to a superuser. `allowed`: the table's owner may use
  -- it. The owner is not always the role that created the table, and the table there has the name of this one, which its owner can change.
  (SELECT jsonb_build_object('name', s.name, 'seal_id', s.seal_id, 'sealed', s.sealed, 'trusted', coalesce(r.rolsuper, false),
      'allowed', headgate.may_use(c.relowner, s.owner_oid))
    FROM headgate.webhook_into i JOIN headgate.secret s ON s.id = i.secret_id LEFT JOIN pg_roles r ON r.oid = s.owner_oid
    WHERE i.relation = w.relation) AS target,
  -- Columns that no request fills.
  to_jsonb(headgate.private_columns(c.oid)) AS private
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT coalesce(jsonb_agg(
    jsonb_build_object('what', i.value -> 'what', 'header', i.value -> 'header', 'column', p.name) ORDER BY i.position
  ) FILTER (WHERE p.name IS NOT NULL), '[]') AS columns
  FROM jsonb_array_elements(w.includes) WITH ORDINALITY AS i (value, position)
  CROSS JOIN LATERAL headgate.placed(c.oid, i.value) AS p (name)
) AS included
CROSS JOIN LATERAL (
  SELECT jsonb_agg(
    jsonb_build_object('alias', b.alias, 'name', s.name, 'seal_id', s.seal_id, 'sealed', s.sealed) ORDER BY b.position
  ) AS secrets
  FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id WHERE b.relation = w.relation
) AS bound;
