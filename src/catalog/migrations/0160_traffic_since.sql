-- The last hour of all tables without a look at their day.
CREATE INDEX IF NOT EXISTS traffic_minute_minute ON headgate.traffic_minute (minute);

-- Requests of each table that came after the last one that was stored: a row for each table that had a request, which the next one overwrites. Headgate
-- alone writes it.
CREATE TABLE IF NOT EXISTS headgate.traffic_since (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  last_at timestamptz NOT NULL,
  -- The last one that was stored; NULL: none is known.
  stored_at timestamptz,
  -- The first of those that are counted here; NULL: there are none.
  since timestamptz,
  unauthorized bigint NOT NULL,
  refused bigint NOT NULL,
  unavailable bigint NOT NULL
) WITH (fillfactor = 60);
REVOKE ALL ON headgate.traffic_since FROM PUBLIC;
-- As far as the minutes tell: of the minute of the last one that was stored none is counted.
INSERT INTO headgate.traffic_since (relation, last_at, stored_at, since, unauthorized, refused, unavailable)
SELECT l.relation, max(m.last_at), l.stored_at, min(m.minute) FILTER (WHERE f.counts), coalesce(sum(m.unauthorized) FILTER (WHERE f.counts), 0),
  coalesce(sum(m.refused) FILTER (WHERE f.counts), 0), coalesce(sum(m.unavailable) FILTER (WHERE f.counts), 0)
FROM (SELECT t.relation, max(t.minute) FILTER (WHERE t.stored > 0) AS stored_at FROM headgate.traffic_minute t GROUP BY 1) l
JOIN headgate.traffic_minute m ON m.relation = l.relation
CROSS JOIN LATERAL (SELECT (l.stored_at IS NULL OR m.minute > l.stored_at) AND m.unauthorized + m.refused + m.unavailable > 0 AS counts) f
GROUP BY l.relation, l.stored_at
ON CONFLICT DO NOTHING;
