-- Requests by the hour for 31 days, and how many were kept on disk first.

DO $body$
BEGIN
  -- Without a lock if there is nothing to do.
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'headgate.traffic_minute'::regclass AND a.attname = 'spooled') THEN
    ALTER TABLE headgate.traffic_minute ADD COLUMN spooled bigint NOT NULL DEFAULT 0;
  END IF;
END
$body$;

-- As headgate.traffic_minute: a row for each hour of 31 days that had a request, whose place the same hour takes 31 days later.
CREATE TABLE IF NOT EXISTS headgate.traffic_hour (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 743),
  hour timestamptz NOT NULL,
  stored bigint NOT NULL,
  unauthorized bigint NOT NULL,
  refused bigint NOT NULL,
  unavailable bigint NOT NULL,
  -- By duration, as there.
  took int[] NOT NULL,
  -- Of those stored.
  spooled bigint NOT NULL,
  PRIMARY KEY (relation, slot)
) WITH (fillfactor = 60);
REVOKE ALL ON headgate.traffic_hour FROM PUBLIC;

-- The day that is known.
INSERT INTO headgate.traffic_hour (relation, slot, hour, stored, unauthorized, refused, unavailable, took, spooled)
SELECT m.relation, (extract(epoch FROM h.hour) / 3600)::bigint % 744, h.hour, sum(m.stored), sum(m.unauthorized), sum(m.refused), sum(m.unavailable),
  ARRAY[sum(m.took[1]), sum(m.took[2]), sum(m.took[3]), sum(m.took[4]), sum(m.took[5]), sum(m.took[6]), sum(m.took[7]), sum(m.took[8]),
    sum(m.took[9]), sum(m.took[10]), sum(m.took[11]), sum(m.took[12]), sum(m.took[13]), sum(m.took[14])]::int[], sum(m.spooled)
FROM headgate.traffic_minute m
CROSS JOIN LATERAL (SELECT to_timestamp(floor(extract(epoch FROM m.minute) / 3600) * 3600) AS hour) h
WHERE m.minute > now() - interval '24 hours'
GROUP BY m.relation, h.hour
ON CONFLICT DO NOTHING;
