-- As headgate.traffic, by the hour, for 30 days.
CREATE OR REPLACE VIEW headgate.traffic_hours WITH (security_barrier) AS
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, h.hour,
  h.stored, h.unauthorized, h.refused, h.unavailable,
  headgate.quantile(h.took::bigint[], 0.5) AS p50_ms, headgate.quantile(h.took::bigint[], 0.99) AS p99_ms, h.spooled, h.took
FROM headgate.traffic_hour h
JOIN pg_class c ON c.oid = h.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE h.hour > now() - interval '30 days 1 hour'
  AND h.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation));
GRANT SELECT (schema_name, table_name, hour, stored, unauthorized, refused, unavailable, p50_ms, p99_ms, spooled, took)
  ON headgate.traffic_hours TO PUBLIC;
