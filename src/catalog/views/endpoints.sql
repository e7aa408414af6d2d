-- Each webhook table with its requests of the last 24 hours. The time of the last request is remembered longer.
CREATE OR REPLACE VIEW headgate.endpoints WITH (security_barrier) AS
SELECT c.oid AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name, w.expression IS NOT NULL AS checked,
  (SELECT s.last_at FROM headgate.traffic_since s WHERE s.relation = w.relation) AS last_at,
  coalesce(t.stored, 0)::bigint AS stored, coalesce(t.unauthorized, 0)::bigint AS unauthorized,
  coalesce(t.refused, 0)::bigint AS refused, coalesce(t.unavailable, 0)::bigint AS unavailable,
  headgate.quantile(t.took, 0.99) AS p99_ms, coalesce(t.stale, 0)::bigint AS stale
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT sum(m.stored) AS stored, sum(m.unauthorized) AS unauthorized, sum(m.refused) AS refused, sum(m.unavailable) AS unavailable,
    sum(m.stale) AS stale,
    ARRAY[sum(m.took[1]), sum(m.took[2]), sum(m.took[3]), sum(m.took[4]), sum(m.took[5]), sum(m.took[6]), sum(m.took[7]), sum(m.took[8]), sum(m.took[9]), sum(m.took[10]), sum(m.took[11]), sum(m.took[12]), sum(m.took[13]), sum(m.took[14])] AS took
  FROM headgate.traffic_minute m WHERE m.relation = w.relation AND m.minute > now() - interval '24 hours'
) AS t
WHERE headgate.sees_table(w.relation);
GRANT SELECT (relation, schema_name, table_name, checked, last_at, stored, unauthorized, refused, unavailable, p99_ms, stale)
  ON headgate.endpoints TO PUBLIC;
