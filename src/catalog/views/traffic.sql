CREATE OR REPLACE VIEW headgate.traffic WITH (security_barrier) AS
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, m.minute,
  m.stored, m.unauthorized, m.refused, m.unavailable, m.rows,
  headgate.quantile(m.took::bigint[], 0.5) AS p50_ms, headgate.quantile(m.took::bigint[], 0.99) AS p99_ms, m.last_at,
  m.stale, m.spooled, m.took
FROM headgate.traffic_minute m
JOIN pg_class c ON c.oid = m.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE m.minute > now() - interval '24 hours'
  AND m.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation));
GRANT SELECT (schema_name, table_name, minute, stored, unauthorized, refused, unavailable, rows, p50_ms, p99_ms, last_at, stale, spooled, took)
  ON headgate.traffic TO PUBLIC;
