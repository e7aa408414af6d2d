-- How many requests came to each table, minute by minute, for a day; and SHOW ENDPOINTS.

-- A row for each minute of a day that had a request, whose place the next day takes: it never grows beyond that. Headgate
-- alone writes it. HOT updates want room in the page.
CREATE TABLE headgate.traffic_minute (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 1439),
  minute timestamptz NOT NULL,
  stored bigint NOT NULL,
  unauthorized bigint NOT NULL,
  refused bigint NOT NULL,
  unavailable bigint NOT NULL,
  rows bigint NOT NULL,
  -- By duration: up to 1 ms, 2, 5, 10 … 10 s, and beyond.
  took int[] NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (relation, slot)
) WITH (fillfactor = 60);
REVOKE ALL ON headgate.traffic_minute FROM PUBLIC;
