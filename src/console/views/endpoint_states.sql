-- Whether requests get into each webhook table: what the console, `headgate endpoints` and `headgate doctor` say of it. Two figures decide: the
-- requests since the last one that was stored, and those of the last hour (stored, unauthorized, refused, unavailable). Below three requests nothing is
-- said, and of those that anybody can send three must be kept that only the sender is likely to have sent: they passed the check, or have a signature of
-- the sender's that is not right (`cause`). Retried and stored ones do not count. `log_problem` and `missing`: of tables that are compared with their sender's log, why it is not read, and what is missing of the hours that
-- reach into the last 7 days.
CREATE OR REPLACE VIEW headgate.endpoint_states WITH (security_barrier) AS
SELECT c.oid AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name,
  CASE
    WHEN s.since_unauthorized + s.since_refused + s.since_unavailable >= 3 AND s.last_at > now() - interval '24 hours'
      AND s.since_unavailable + (SELECT count(*) FROM (
        SELECT FROM headgate.rejected_requests q
        WHERE q.relation = w.relation AND q.received_at > coalesce(s.stored_at, '-infinity') AND (q.authenticated OR q.cause ->> 'kind' NOT IN ('missing', 'empty'))
          AND q.retry_outcome IS DISTINCT FROM 'committed'
        LIMIT 3) AS telling) >= 3 THEN 'nothing stored'
    WHEN h.unauthorized >= 3 AND h.unauthorized * 2 > h.requests AND (SELECT count(*) FROM (
        SELECT FROM headgate.rejected_requests q
        WHERE q.relation = w.relation AND q.received_at > now() - interval '1 hour' AND NOT q.authenticated AND q.cause ->> 'kind' NOT IN ('missing', 'empty')
          AND q.retry_outcome IS DISTINCT FROM 'committed'
        LIMIT 3) AS telling) >= 3 THEN 'signatures fail'
    WHEN h.refused >= 3 AND h.refused * 10 > h.requests AND (SELECT count(*) FROM (
        SELECT FROM headgate.rejected_requests q
        WHERE q.relation = w.relation AND q.received_at > now() - interval '1 hour' AND q.authenticated AND q.retry_outcome IS DISTINCT FROM 'committed'
        LIMIT 3) AS telling) >= 3 THEN 'many refused'
    WHEN h.stored < h.requests THEN 'some refused'
    WHEN h.stored > 0 THEN 'stored'
    ELSE 'quiet' END AS state,
  s.last_at, s.stored_at, s.since, coalesce(s.since_unauthorized, 0) AS since_unauthorized, coalesce(s.since_refused, 0) AS since_refused,
  coalesce(s.since_unavailable, 0) AS since_unavailable,
  coalesce(h.stored, 0) AS stored, coalesce(h.unauthorized, 0) AS unauthorized, coalesce(h.refused, 0) AS refused, coalesce(h.unavailable, 0) AS unavailable,
  g.log_problem, g.missing
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN (
  SELECT t.relation, t.last_at, t.stored_at, t.since, t.unauthorized AS since_unauthorized, t.refused AS since_refused, t.unavailable AS since_unavailable
  FROM headgate.traffic_since t
) AS s ON s.relation = w.relation
LEFT JOIN (
  SELECT m.relation, sum(m.stored)::bigint AS stored, sum(m.unauthorized)::bigint AS unauthorized, sum(m.refused)::bigint AS refused,
    sum(m.unavailable)::bigint AS unavailable, sum(m.stored + m.unauthorized + m.refused + m.unavailable)::bigint AS requests
  FROM headgate.traffic_minute m WHERE m.minute > now() - interval '1 hour' GROUP BY m.relation
) AS h ON h.relation = w.relation
LEFT JOIN (
  SELECT x.schema_name, x.table_name, max(x.problem) AS log_problem,
    coalesce(sum(x.missing) FILTER (WHERE x.state IN ('missing', 'lost') AND x.window_to > now() - interval '7 days'), 0)::bigint AS missing
  FROM headgate.gaps x GROUP BY 1, 2
) AS g ON g.schema_name = n.nspname::text AND g.table_name = c.relname::text
WHERE headgate.sees_table(w.relation);
GRANT SELECT (relation, schema_name, table_name, state, last_at, stored_at, since, since_unauthorized, since_refused, since_unavailable, stored, unauthorized, refused, unavailable, log_problem, missing)
  ON headgate.endpoint_states TO PUBLIC;
