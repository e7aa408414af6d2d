-- Requests of all tables of an owner together, so that a chart of a thousand endpoints reads no row of each: by the minute for a day and by the hour for 31,
-- in places that are taken again, as in headgate.traffic_minute and headgate.traffic_hour. Those of the owner '' are of all tables of the database. A table
-- that is dropped or given to another owner takes nothing with it. Headgate alone writes it.
CREATE TABLE IF NOT EXISTS headgate.traffic_total (
  owner name NOT NULL,
  per text NOT NULL CHECK (per IN ('minute', 'hour')),
  slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 1439),
  at timestamptz NOT NULL,
  stored bigint NOT NULL,
  unauthorized bigint NOT NULL,
  refused bigint NOT NULL,
  unavailable bigint NOT NULL,
  spooled bigint NOT NULL,
  took int[] NOT NULL,
  PRIMARY KEY (owner, per, slot)
) WITH (fillfactor = 60);
REVOKE ALL ON headgate.traffic_total FROM PUBLIC;
-- What is known of the tables that there are.
WITH known AS MATERIALIZED (
  SELECT c.relowner, m.per, m.slot, m.at, sum(m.stored) AS stored, sum(m.unauthorized) AS unauthorized, sum(m.refused) AS refused,
    sum(m.unavailable) AS unavailable, sum(m.spooled) AS spooled,
    ARRAY[sum(m.took[1]), sum(m.took[2]), sum(m.took[3]), sum(m.took[4]), sum(m.took[5]), sum(m.took[6]), sum(m.took[7]), sum(m.took[8]),
      sum(m.took[9]), sum(m.took[10]), sum(m.took[11]), sum(m.took[12]), sum(m.took[13]), sum(m.took[14])] AS took
  FROM (
    SELECT 'minute' AS per, relation, slot, minute AS at, stored, unauthorized, refused, unavailable, spooled, took
    FROM headgate.traffic_minute WHERE minute > now() - interval '24 hours'
    UNION ALL
    SELECT 'hour', relation, slot, hour, stored, unauthorized, refused, unavailable, spooled, took
    FROM headgate.traffic_hour WHERE hour > now() - interval '30 days 1 hour'
  ) AS m
  JOIN pg_class c ON c.oid = m.relation
  GROUP BY c.relowner, m.per, m.slot, m.at
)
INSERT INTO headgate.traffic_total (owner, per, slot, at, stored, unauthorized, refused, unavailable, spooled, took)
SELECT r.rolname, k.per, k.slot, k.at, k.stored, k.unauthorized, k.refused, k.unavailable, k.spooled, k.took::int[]
FROM known k JOIN pg_roles r ON r.oid = k.relowner
UNION ALL
SELECT '', k.per, k.slot, k.at, sum(k.stored), sum(k.unauthorized), sum(k.refused), sum(k.unavailable), sum(k.spooled),
  ARRAY[sum(k.took[1]), sum(k.took[2]), sum(k.took[3]), sum(k.took[4]), sum(k.took[5]), sum(k.took[6]), sum(k.took[7]), sum(k.took[8]),
    sum(k.took[9]), sum(k.took[10]), sum(k.took[11]), sum(k.took[12]), sum(k.took[13]), sum(k.took[14])]::int[]
FROM known k
GROUP BY k.per, k.slot, k.at
ON CONFLICT DO NOTHING;
