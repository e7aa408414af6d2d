CREATE OR REPLACE VIEW headgate.rejected_summary WITH (security_barrier) AS
SELECT
  r.schema_name,
  r.table_name,
  r.code,
  date_trunc('hour', r.received_at) AS hour,
  count(*) AS requests,
  count(DISTINCT r.remote_address) AS addresses,
  min(r.received_at) AS first_at,
  max(r.received_at) AS last_at,
  (array_agg(r.reason ORDER BY r.id DESC))[1] AS last_reason,
  max(r.id) AS last_id
FROM headgate.rejected_requests r
WHERE r.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation))
GROUP BY r.relation, r.schema_name, r.table_name, r.code, date_trunc('hour', r.received_at);
GRANT SELECT (schema_name, table_name, code, hour, requests, addresses, first_at, last_at, last_reason, last_id)
  ON headgate.rejected_summary TO PUBLIC;
