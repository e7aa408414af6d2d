-- What Headgate reads, with partitioned tables and columns that collect.

CREATE OR REPLACE PROCEDURE headgate.place_restored()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  restored record;
BEGIN
  FOR restored IN
    SELECT w.relation FROM headgate.webhook_table w
    WHERE (w.document ->> 'relation')::oid <> w.relation::oid OR (w.collect ->> 'relation')::oid <> w.relation::oid
      OR EXISTS (SELECT FROM jsonb_array_elements(w.includes) i WHERE (i.value ->> 'relation')::oid <> w.relation::oid)
  LOOP
    UPDATE headgate.webhook_table w SET
      document = headgate.placed_anew(w.relation, w.document),
      collect = headgate.placed_anew(w.relation, w.collect),
      includes = (
        SELECT coalesce(jsonb_agg(headgate.placed_anew(w.relation, i.value) ORDER BY i.position), '[]')
        FROM jsonb_array_elements(w.includes) WITH ORDINALITY AS i (value, position))
    WHERE w.relation = restored.relation;
  END LOOP;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.webhook_clauses(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce((
      SELECT string_agg(format(E'\nINCLUDE %s AS %I', CASE i.value ->> 'what'
          WHEN 'header' THEN format('HEADER %L', i.value ->> 'header') ELSE upper(i.value ->> 'what') END, p.name),
        '' ORDER BY i.position) || E'\n'
      FROM jsonb_array_elements(w.includes) WITH ORDINALITY AS i (value, position)
      CROSS JOIN LATERAL headgate.placed(w.relation, i.value) AS p (name) WHERE p.name IS NOT NULL), ' ')
    || E'WITH (\n  ' || (
      SELECT string_agg(format('%s = %L', o.key, o.value), E',\n  ' ORDER BY o.key <> 'connector', o.key)
      FROM jsonb_each_text(w.options || headgate.document_option(w.relation, w.options, w.document, w.includes)
        || jsonb_strip_nulls(jsonb_build_object('collect_into', headgate.placed(w.relation, w.collect)))) o)
    || E'\n)' || coalesce(E'\nVALIDATE ' || (
      SELECT 'SECRET ' || string_agg(format('%I.%I', s.schema_name, s.name), ', ' ORDER BY b.position) || ' '
      FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
      WHERE b.relation = w.relation) || 'AS ' || w.expression, E'\nVALIDATE AS ' || w.expression, '')
  FROM headgate.webhook_table w WHERE w.relation = webhook_clauses.relation
$body$;

CREATE OR REPLACE VIEW headgate.catalog_rows AS
SELECT
  c.oid AS relation,
  n.nspname::text AS schema_name,
  c.relname::text AS table_name,
  w.payload,
  w.options,
  w.document IS NOT NULL AS takes_document,
  -- NULL where it is gone.
  headgate.placed(c.oid, w.document)::text AS document,
  included.columns AS includes,
  w.expression,
  w.sealed_expression,
  w.seal_id,
  coalesce(bound.secrets, '[]') AS secrets,
  -- NULL where there is none, or it is gone.
  headgate.placed(c.oid, w.collect)::text AS collect
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

-- What reading a webhook table costs: its row, its secrets, and the defaults and generated columns that its owner has
-- given it. Lengths are known without reading the values. `fits`: it is small enough, and so are all of its owner's
-- together; what does not fit is not read, and its requests are answered 503.
CREATE OR REPLACE VIEW headgate.catalog_sizes AS
SELECT sized.relation, sized.schema_name, sized.table_name, sized.bytes,
  sized.bytes <= 8388608
    AND sum(sized.bytes) FILTER (WHERE sized.bytes <= 8388608) OVER (PARTITION BY sized.relowner ORDER BY sized.relation) <= 67108864
    AS fits
FROM (
  SELECT c.oid AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name, c.relowner,
    -- A jsonb may be compressed: rows from before there were bounds are taken for what they may come to.
    octet_length(w.payload) + 16 * (pg_column_size(w.options) + coalesce(pg_column_size(w.document), 0) + coalesce(pg_column_size(w.collect), 0)
      + pg_column_size(w.includes))
      + coalesce(octet_length(w.expression), 0) + coalesce(octet_length(w.sealed_expression), 0)
      + coalesce(secrets.bytes, 0) + columns.bytes AS bytes
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN LATERAL (
    SELECT sum(octet_length(b.alias) + octet_length(s.name) + octet_length(s.sealed)) AS bytes
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id WHERE b.relation = w.relation
  ) AS secrets
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(
      coalesce(octet_length(d.adbin::text), 0) + coalesce(octet_length(t.typdefaultbin::text), 0) + 256), 0) AS bytes
    FROM pg_attribute a
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = w.relation AND a.attnum > 0
  ) AS columns
) AS sized;

-- Changes whenever what is read of a webhook table does, at a fraction of the cost: xmin is the transaction that wrote a
-- row's present version. Only what a default calls by name may be renamed unseen; the next row that needs it tells.
CREATE OR REPLACE FUNCTION headgate.table_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', tables.versions, columns.versions, keys.versions, secrets.versions, owners.names))
  FROM (
    SELECT string_agg(concat_ws(' ', c.oid, w.xmin, c.xmin, n.xmin), ',' ORDER BY c.oid) AS versions
    FROM headgate.webhook_table w
    JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    JOIN pg_namespace n ON n.oid = c.relnamespace
  ) AS tables, (
    SELECT string_agg(concat_ws(' ', a.xmin, d.xmin, t.xmin, n.xmin), ',' ORDER BY a.attrelid, a.attnum) AS versions
    FROM headgate.webhook_table w
    JOIN pg_attribute a ON a.attrelid = w.relation AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_namespace n ON n.oid = t.typnamespace
  ) AS columns, (
    SELECT string_agg(concat_ws(' ', i.indexrelid, i.xmin), ',' ORDER BY i.indrelid) AS versions
    FROM headgate.webhook_table w JOIN pg_index i ON i.indrelid = w.relation AND i.indisprimary
  ) AS keys, (
    SELECT string_agg(concat_ws(' ', b.xmin, s.xmin), ',' ORDER BY b.relation::oid, b.position) AS versions
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
  ) AS secrets, (
    SELECT string_agg(concat_ws(' ', r.oid, r.rolname), ',' ORDER BY r.oid) AS names
    FROM pg_roles r WHERE r.oid IN (SELECT s.owner_oid FROM headgate.secret s)
  ) AS owners
$body$;
