-- Which rows were deleted lately, and how new they were, for tables whose rows replace only older ones (the option version).

-- Written through the view headgate.tombstones by whoever stores rows of the table. `key` is a digest of the row's key; `version` has a text for
-- each part of it. Without a reference to the table: that would cost every row a lock, and what is left of a table that is gone is forgotten.
CREATE TABLE IF NOT EXISTS headgate.tombstone (
  relation regclass NOT NULL,
  key uuid NOT NULL,
  version text[] NOT NULL,
  deleted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relation, key)
);
CREATE INDEX IF NOT EXISTS tombstone_relation_deleted_at ON headgate.tombstone (relation, deleted_at);
REVOKE ALL ON headgate.tombstone FROM PUBLIC;

-- It has one column more.
DROP FUNCTION IF EXISTS headgate.show_endpoints(jsonb);

-- Rows that were not newer than what their table had.
DO $body$
BEGIN
  -- Without a lock if there is nothing to do.
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'headgate.traffic_minute'::regclass AND a.attname = 'stale') THEN
    ALTER TABLE headgate.traffic_minute ADD COLUMN stale bigint NOT NULL DEFAULT 0;
  END IF;
END
$body$;
