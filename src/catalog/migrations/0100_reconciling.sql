-- What the logs of senders announce, compared with what has come (the option reconcile).

-- Whose token the sender's API is asked with.
CREATE TABLE IF NOT EXISTS headgate.webhook_reconcile (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  secret_id uuid NOT NULL REFERENCES headgate.secret
);
CREATE INDEX IF NOT EXISTS webhook_reconcile_secret_id ON headgate.webhook_reconcile (secret_id);

-- How far a log was read. Times of announcements are those of the sender's clock. `mark`: the owner's, see headgate.claimer. `held`: rows of
-- headgate.announced. The log is read from its newest delivery to `walk_reach`, over several turns: `walk_cursor` is the next page.
CREATE TABLE IF NOT EXISTS headgate.reconciling (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  log text NOT NULL,
  mark oid NOT NULL,
  since timestamptz NOT NULL,
  read_to timestamptz,
  walk_top timestamptz,
  walk_reach timestamptz,
  walk_cursor text,
  walk_pages int NOT NULL DEFAULT 0,
  held int NOT NULL DEFAULT 0,
  holder uuid,
  held_until timestamptz,
  next_at timestamptz NOT NULL DEFAULT now(),
  failures int NOT NULL DEFAULT 0,
  looked_at timestamptz,
  problem text
);

-- Deliveries that a log announces, until their window is over and they have come. `delivery`: as headgate.delivery has it. `next_at`: when it may be
-- asked for; infinity: never again. `asked`: how often it was. `reason`: why that failed.
CREATE TABLE IF NOT EXISTS headgate.announced (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  delivery uuid NOT NULL,
  id text NOT NULL,
  log_id text NOT NULL,
  announced_at timestamptz NOT NULL,
  next_at timestamptz NOT NULL,
  came_at timestamptz,
  asked int NOT NULL DEFAULT 0,
  reason text,
  PRIMARY KEY (relation, delivery),
  CONSTRAINT announced_bounds CHECK (octet_length(id) <= 255 AND octet_length(log_id) <= 255 AND octet_length(reason) <= 1000)
);
CREATE INDEX IF NOT EXISTS announced_relation_announced_at ON headgate.announced (relation, announced_at);
CREATE INDEX IF NOT EXISTS announced_missing ON headgate.announced (relation, next_at) WHERE came_at IS NULL;

-- The deliveries of past windows that have come, as numbers. Where `came` is NULL the log could not be read any more.
CREATE TABLE IF NOT EXISTS headgate.past_window (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  window_from timestamptz NOT NULL,
  window_to timestamptz NOT NULL,
  came bigint,
  fetched bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (relation, window_from, window_to)
);

REVOKE ALL ON headgate.webhook_reconcile, headgate.reconciling, headgate.announced, headgate.past_window FROM PUBLIC;
GRANT SELECT (relation, secret_id) ON headgate.webhook_reconcile TO PUBLIC;
DO $body$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'headgate.webhook_reconcile'::regclass) THEN
    ALTER TABLE headgate.webhook_reconcile ENABLE ROW LEVEL SECURITY;
    CREATE POLICY seen ON headgate.webhook_reconcile FOR SELECT USING (true);
  END IF;
END
$body$;

-- Both get one parameter more.
DROP PROCEDURE IF EXISTS headgate.alter_options(regclass, text, boolean, jsonb);
DROP FUNCTION IF EXISTS headgate.do_options(oid, oid, jsonb);
