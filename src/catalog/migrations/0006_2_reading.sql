-- What Headgate reads and shows, with ANSWER clauses; and handshakes that were asked for.

-- ANSWER clauses, each on a line of its own; '' where there are none.
CREATE FUNCTION headgate.answer_clauses(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce(string_agg(E'\nANSWER ' || coalesce((
      SELECT 'SECRET ' || string_agg(format('%I.%I', s.schema_name, s.name), ', ' ORDER BY b.position) || ' '
      FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
      WHERE b.relation = a.relation AND b.answer = a.position), '') || a.expression, '' ORDER BY a.position), '')
  FROM headgate.webhook_answer a WHERE a.relation = answer_clauses.relation
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
    || headgate.answer_clauses(w.relation)
  FROM headgate.webhook_table w WHERE w.relation = webhook_clauses.relation
$body$;

CREATE VIEW headgate.answer_rows AS
SELECT a.relation::oid AS relation, jsonb_agg(jsonb_build_object(
    'expression', a.expression, 'unchecked', a.unchecked, 'sealed', a.sealed, 'seal_id', a.seal_id,
    'secrets', coalesce(bound.secrets, '[]')) ORDER BY a.position) AS answers
FROM headgate.webhook_answer a
CROSS JOIN LATERAL (
  SELECT jsonb_agg(
    jsonb_build_object('alias', b.alias, 'name', s.name, 'seal_id', s.seal_id, 'sealed', s.sealed) ORDER BY b.position
  ) AS secrets
  FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
  WHERE b.relation = a.relation AND b.answer = a.position
) AS bound
GROUP BY a.relation;

-- As before, and what its ANSWER clauses and their secrets take.
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
      + coalesce(secrets.bytes, 0) + coalesce(answers.bytes, 0) + columns.bytes AS bytes
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN LATERAL (
    SELECT sum(octet_length(b.alias) + octet_length(s.name) + octet_length(s.sealed)) AS bytes
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id WHERE b.relation = w.relation
  ) AS secrets
  CROSS JOIN LATERAL (
    SELECT sum(octet_length(a.expression) + octet_length(a.sealed) + coalesce((
      SELECT sum(octet_length(b.alias) + octet_length(s.name) + octet_length(s.sealed))
      FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
      WHERE b.relation = a.relation AND b.answer = a.position), 0))::bigint AS bytes
    FROM headgate.webhook_answer a WHERE a.relation = w.relation
  ) AS answers
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(
      coalesce(octet_length(d.adbin::text), 0) + coalesce(octet_length(t.typdefaultbin::text), 0) + 256), 0) AS bytes
    FROM pg_attribute a
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = w.relation AND a.attnum > 0
  ) AS columns
) AS sized;

ALTER FUNCTION headgate.catalog_fingerprint() RENAME TO checked_fingerprint;
CREATE FUNCTION headgate.catalog_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', headgate.checked_fingerprint(), answers.versions, secrets.versions))
  FROM (
    SELECT string_agg(concat_ws(' ', a.xmin, a.seal_id), ',' ORDER BY a.relation::oid, a.position) AS versions
    FROM headgate.webhook_answer a
  ) AS answers, (
    SELECT string_agg(concat_ws(' ', b.xmin, s.xmin), ',' ORDER BY b.relation::oid, b.answer, b.position) AS versions
    FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
  ) AS secrets
$body$;
REVOKE EXECUTE ON FUNCTION headgate.catalog_fingerprint() FROM PUBLIC;

---------------------------------------------------------------- handshakes

-- Questions of senders, and what they were answered: nothing that a stranger has sent is in it but an address. Headgate
-- alone writes it, and keeps the newest.
CREATE TABLE headgate.handshake_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  asked_at timestamptz NOT NULL,
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  method text NOT NULL,
  remote_address text NOT NULL,
  -- The place of the ANSWER, from 1; NULL: none matched.
  rule int,
  status int NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('answered', 'unmatched', 'too_many'))
);
CREATE INDEX handshake_log_relation_id ON headgate.handshake_log (relation, id);

-- The condition stands here because a view runs with the rights of its owner.
CREATE VIEW headgate.handshakes WITH (security_barrier) AS
SELECT h.id, h.asked_at, h.schema_name, h.table_name, h.method, h.remote_address, h.rule, h.status, h.outcome
FROM headgate.handshake_log h
WHERE h.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.owns_table(w.relation));
-- By columns: a privilege on the whole would allow LOCK TABLE.
GRANT SELECT (id, asked_at, schema_name, table_name, method, remote_address, rule, status, outcome) ON headgate.handshakes TO PUBLIC;
