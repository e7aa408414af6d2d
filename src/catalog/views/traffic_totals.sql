-- Requests of all tables of the role together, by the minute (per = 'minute') for 24 hours and by the hour for 30 days. What its tables had under other
-- owners is those owners'; what its former tables had is still counted. Of a table that the role may only look at, each row is by itself: add them up.
CREATE OR REPLACE VIEW headgate.traffic_totals WITH (security_barrier) AS
WITH mine AS MATERIALIZED (
  SELECT r.oid FROM pg_roles s JOIN pg_roles r ON pg_has_role(r.oid, 'USAGE') WHERE s.rolname = current_user AND NOT s.rolsuper
  UNION ALL SELECT 0::oid FROM pg_roles s WHERE s.rolname = current_user AND s.rolsuper
), shared AS MATERIALIZED (
  SELECT w.relation FROM headgate.webhook_table w
  WHERE w.options ? 'readers' AND headgate.sees_table(w.relation) AND NOT headgate.owns_table(w.relation)
)
SELECT t.per, t.at, t.stored, t.unauthorized, t.refused, t.unavailable, t.spooled, t.took
FROM headgate.traffic_total t
WHERE t.owner_oid = ANY (ARRAY(SELECT m.oid FROM mine m))
  AND t.at > now() - CASE t.per WHEN 'minute' THEN interval '24 hours' ELSE interval '30 days 1 hour' END
UNION ALL
SELECT 'minute', m.minute, m.stored, m.unauthorized, m.refused, m.unavailable, m.spooled, m.took
FROM headgate.traffic_minute m
WHERE m.minute > now() - interval '24 hours' AND m.relation = ANY (ARRAY(SELECT s.relation FROM shared s))
UNION ALL
SELECT 'hour', h.hour, h.stored, h.unauthorized, h.refused, h.unavailable, h.spooled, h.took
FROM headgate.traffic_hour h
WHERE h.hour > now() - interval '30 days 1 hour' AND h.relation = ANY (ARRAY(SELECT s.relation FROM shared s));
GRANT SELECT (per, at, stored, unauthorized, refused, unavailable, spooled, took) ON headgate.traffic_totals TO PUBLIC;
