-- Of each table with the option reconcile and each hour: what its sender's log has announced, what of it has come, and what is missing now. A table of which
-- nothing was announced has one row.
CREATE OR REPLACE VIEW headgate.gaps WITH (security_barrier) AS
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, r.log, w.window_from, w.window_to,
  w.came + w.missing AS announced, w.came, w.fetched, w.missing, w.missing_ids,
  CASE
    WHEN w.window_from IS NULL THEN NULL
    WHEN w.came IS NULL THEN 'unread'
    WHEN r.read_to IS NULL OR w.window_to > r.read_to THEN 'open'
    WHEN w.missing = 0 THEN 'complete'
    WHEN w.sought = 0 THEN 'lost'
    ELSE 'missing' END AS state,
  w.reason, r.since, r.read_to, r.looked_at, r.problem, r.next_at
FROM headgate.reconciling r
JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
  SELECT p.window_from, p.window_to, CASE WHEN bool_or(p.came IS NULL) THEN NULL ELSE sum(p.came)::bigint END AS came,
    CASE WHEN bool_or(p.came IS NULL) THEN NULL ELSE sum(p.fetched)::bigint END AS fetched,
    CASE WHEN bool_or(p.came IS NULL) THEN NULL ELSE sum(p.missing)::bigint END AS missing,
    sum(p.sought)::bigint AS sought, max(p.missing_ids) AS missing_ids, max(p.reason) AS reason
  FROM (
    SELECT g.window_from, g.window_to, g.came, g.fetched, 0::bigint AS missing, 0::bigint AS sought, NULL::text[] AS missing_ids, NULL::text AS reason
    FROM headgate.past_window g WHERE g.relation = r.relation
    UNION ALL
    SELECT q.window_from, q.window_from + interval '1 hour', count(*) FILTER (WHERE q.came), count(*) FILTER (WHERE q.came AND q.fetched),
      count(*) FILTER (WHERE NOT q.came), count(*) FILTER (WHERE NOT q.came AND q.sought),
      (array_agg(q.id ORDER BY q.announced_at, q.id) FILTER (WHERE NOT q.came))[1:100], max(q.reason) FILTER (WHERE NOT q.came)
    FROM (
      SELECT date_bin('1 hour', a.announced_at, 'epoch') AS window_from, a.id, a.announced_at, a.reason, a.next_at < 'infinity' AS sought,
        a.asked > 0 AND a.reason IS NULL AS fetched, a.came_at IS NOT NULL OR EXISTS (
          SELECT FROM headgate.delivery d WHERE d.relation = a.relation AND d.id = a.delivery AND (d.claimed_by IS NULL OR d.claimed_by = r.mark)) AS came
      FROM headgate.announced a WHERE a.relation = r.relation
    ) AS q GROUP BY q.window_from
  ) AS p GROUP BY p.window_from, p.window_to
) AS w ON true
WHERE r.relation IN (SELECT k.relation FROM headgate.webhook_table k WHERE headgate.sees_table(k.relation));
GRANT SELECT (schema_name, table_name, log, window_from, window_to, announced, came, fetched, missing, missing_ids, state, reason, since, read_to, looked_at, problem, next_at)
  ON headgate.gaps TO PUBLIC;
