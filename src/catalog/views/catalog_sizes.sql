-- What reading a webhook table costs: its row, its secrets, its ANSWER clauses and their secrets, and the defaults, generated
-- columns, checks and index expressions that its owner has given it. Lengths are known without reading the values. `fits`: it is small
-- enough, and so are all of its owner's tables together; a table that does not fit is not read, and its requests are answered 503.
CREATE OR REPLACE VIEW headgate.catalog_sizes AS
SELECT sized.relation, sized.schema_name, sized.table_name, sized.bytes,
  sized.counts AND sized.bytes <= 8388608
    AND sum(sized.bytes) FILTER (WHERE sized.bytes <= 8388608) OVER (PARTITION BY sized.relowner ORDER BY sized.relation) <= 67108864
    AS fits
FROM (
  SELECT c.oid AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name, c.relowner,
    counted.counts,
    -- A jsonb may be compressed: rows from before the limits existed count with the size they may expand to.
    octet_length(w.payload) + 16 * (pg_column_size(w.options) + coalesce(pg_column_size(w.document), 0) + coalesce(pg_column_size(w.collect), 0)
      + pg_column_size(w.includes) + pg_column_size(headgate.private_places(w.relation)))
      + coalesce(octet_length(w.expression), 0) + coalesce(octet_length(w.sealed_expression), 0)
      + coalesce(secrets.bytes, 0) + coalesce(answers.bytes, 0) + coalesce(columns.bytes, 0) + expressions.bytes AS bytes
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN headgate.counted_tables() AS counted ON counted.relation = c.oid
  CROSS JOIN LATERAL (
    SELECT sum(octet_length(b.alias) + octet_length(s.name) + octet_length(s.sealed)) AS bytes
    FROM (
      SELECT v.relation, v.alias, v.secret_id FROM headgate.webhook_table_secret v
      UNION ALL SELECT i.relation, '', i.secret_id FROM headgate.webhook_into i
    ) AS b JOIN headgate.secret s ON s.id = b.secret_id WHERE b.relation = w.relation
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
    WHERE a.attrelid = w.relation AND a.attnum > 0 AND counted.counts
  ) AS columns
  CROSS JOIN LATERAL (
    SELECT (
      SELECT coalesce(sum(octet_length(k.conbin::text)), 0) FROM pg_constraint k
      WHERE k.conrelid = w.relation AND k.contype = 'c' AND counted.counts
    ) + (
      SELECT coalesce(sum(coalesce(octet_length(i.indexprs::text), 0) + coalesce(octet_length(i.indpred::text), 0)), 0) FROM pg_index i
      WHERE i.indrelid = w.relation AND counted.counts
    ) AS bytes
  ) AS expressions
  -- So that it is computed once.
  OFFSET 0
) AS sized;
