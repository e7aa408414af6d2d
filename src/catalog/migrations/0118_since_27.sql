-- What has come since version 27, in one step: the versions between were never released, and are not brought up to date.

-- What earlier functions have left, or had in another form. The view is made again.
DROP VIEW IF EXISTS headgate.catalog_sizes;
DO $body$
BEGIN
  EXECUTE (SELECT coalesce(string_agg(format('DROP ROUTINE %s;', p.oid::regprocedure), ''), 'SELECT') FROM pg_proc p
    WHERE p.pronamespace = 'headgate'::regnamespace AND p.proname = ANY (
      '{add_answers,alter_answering_table,alter_formed_secret,alter_learning_secret,alter_options,alter_secret,alter_webhook_table,catalog_fingerprint,
        catalog_versions,claim_deliveries,confirm,counted,counted_tables,create_answering_table,create_formed_secret,create_learning_secret,create_secret,
        create_token,create_webhook_table,dedupe_window,do_alter_formed_secret,do_create_formed_secret,do_options,drop_answer,drop_secret,drop_token,
        drop_validate,forget_deliveries,hold,hold_inert,keep_token_owners,may_insert,open_learning,refuse_token_table,set_answers,set_validation,
        show_create_table,show_endpoints,show_tokens,stays,store_together,token_rights,trusts}'));
  -- Functions of owners, which stored their rows before.
  EXECUTE (SELECT coalesce(string_agg(format('DROP SCHEMA %I CASCADE;', n.nspname), ''), 'SELECT') FROM pg_namespace n
    WHERE starts_with(n.nspname, 'headgate_owner_') AND n.nspowner = (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user));
END
$body$;
DROP TABLE IF EXISTS headgate.capability;
ALTER TABLE headgate.webhook_table DROP COLUMN IF EXISTS seal_form;

-- The role that stores rows of tables that run no code, if that is not Headgate's own (functions/writer.sql); `mark` says where it was let in.
CREATE TABLE headgate.writer_role (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  name name NOT NULL,
  mark text NOT NULL
);

-- Columns of webhook tables that no request fills. `places`: as of `includes`.
CREATE TABLE headgate.webhook_private (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  places jsonb NOT NULL CHECK (headgate.are_places(places) IS TRUE)
);
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_private FOR EACH ROW EXECUTE FUNCTION headgate.tell();

-- Tokens FOR SELECT: who holds one may follow some tables until it expires, and nothing else.
ALTER TABLE headgate.token ADD COLUMN reads boolean NOT NULL DEFAULT false, ADD COLUMN expires_at timestamptz,
  ADD CONSTRAINT token_expires CHECK (reads = (expires_at IS NOT NULL));

-- `claimed_by`: the mark of the owner in whose session a delivery was claimed, who may have claimed what it has not stored; NULL: Headgate itself has.
-- `body`: what its body was, so that a repeated id with another body is not taken for a copy (decision 0120): a digest of 16 bytes; NULL: not known.
ALTER TABLE headgate.delivery ADD COLUMN claimed_by oid, ADD COLUMN body uuid;

-- As whom sessions of a table's owner claim deliveries, known in a restored database too, where roles have other oids (functions/deliveries.sql): `mark` is
-- what headgate.delivery.claimed_by holds. `owner` is that owner in the database `place`. Not a regrole: a dump can then be restored where the role
-- does not exist.
CREATE TABLE headgate.claimer (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  owner oid NOT NULL,
  place text NOT NULL,
  mark oid NOT NULL
);

-- Which rows were deleted lately, and how new they were, for tables whose rows replace only older ones (the option version).
-- Written through the view headgate.tombstones by whoever stores rows of the table. `key` is a digest of the row's key; `version` has a text for
-- each part of it. Without a reference to the table: that would cost every row a lock, and what is left of a table that is gone is forgotten.
CREATE TABLE headgate.tombstone (
  relation regclass NOT NULL,
  key uuid NOT NULL,
  version text[] NOT NULL,
  deleted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relation, key)
);
CREATE INDEX tombstone_relation_deleted_at ON headgate.tombstone (relation, deleted_at);

-- Of a request that was refused: the engine's own words about a row, for the owner of the table, whom its sender's answer tells less; why, for programs
-- (kind, header, age, limit); whose it was by its table's check, and what its event is called; what continues its trace; NULL: it was not traced.
ALTER TABLE headgate.rejected_requests ADD COLUMN engine_error text, ADD COLUMN cause jsonb, ADD COLUMN sender text, ADD COLUMN event text,
  ADD COLUMN traceparent text;
-- The console's lists are in the order of arrival, and a page begins after the last one.
CREATE INDEX rejected_requests_received ON headgate.rejected_requests (received_at, id);
CREATE INDEX handshake_log_asked ON headgate.handshake_log (asked_at, id);
-- The owner is asked for with each row that is looked at: there may be ten thousand webhook tables, and a page has a hundred rows. Who looks at the
-- requests of a table without owning it (functions/tables.sql, sees_table) is asked once for a statement.
DROP POLICY IF EXISTS seen ON headgate.rejected_requests;
CREATE POLICY seen ON headgate.rejected_requests FOR SELECT USING (
  EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = relation AND pg_catalog.pg_has_role(c.relowner, 'USAGE'))
  OR relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE w.options ? 'readers' AND headgate.sees_table(w.relation)));

-- Rows that were not newer than what their table had, and requests that were kept on disk first.
ALTER TABLE headgate.traffic_minute ADD COLUMN stale bigint NOT NULL DEFAULT 0, ADD COLUMN spooled bigint NOT NULL DEFAULT 0;

-- As headgate.traffic_minute: a row for each hour of 31 days that had a request, whose place the same hour takes 31 days later.
CREATE TABLE headgate.traffic_hour (
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
-- The day that is known.
INSERT INTO headgate.traffic_hour (relation, slot, hour, stored, unauthorized, refused, unavailable, took, spooled)
SELECT m.relation, (extract(epoch FROM h.hour) / 3600)::bigint % 744, h.hour, sum(m.stored), sum(m.unauthorized), sum(m.refused), sum(m.unavailable),
  ARRAY[sum(m.took[1]), sum(m.took[2]), sum(m.took[3]), sum(m.took[4]), sum(m.took[5]), sum(m.took[6]), sum(m.took[7]), sum(m.took[8]),
    sum(m.took[9]), sum(m.took[10]), sum(m.took[11]), sum(m.took[12]), sum(m.took[13]), sum(m.took[14])]::int[], 0
FROM headgate.traffic_minute m
CROSS JOIN LATERAL (SELECT to_timestamp(floor(extract(epoch FROM m.minute) / 3600) * 3600) AS hour) h
WHERE m.minute > now() - interval '24 hours'
GROUP BY m.relation, h.hour;

-- What the logs of senders announce, compared with what has come (the option reconcile): whose token the sender's API is asked with, …
CREATE TABLE headgate.webhook_reconcile (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  secret_id uuid NOT NULL REFERENCES headgate.secret
);
CREATE INDEX webhook_reconcile_secret_id ON headgate.webhook_reconcile (secret_id);

-- … how far a log was read: times of announcements are those of the sender's clock, `mark` is the owner's (headgate.claimer), `held` is the number of rows of
-- headgate.announced. The log is read from its newest delivery to `walk_reach`, over several turns: `walk_cursor` is the next page.
CREATE TABLE headgate.reconciling (
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

-- … deliveries that a log announces, until their window is over and they have come: `delivery` as headgate.delivery has it, `next_at` when it may be
-- asked for (infinity: never again), `asked` how often it was, `reason` why that failed, …
CREATE TABLE headgate.announced (
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
CREATE INDEX announced_relation_announced_at ON headgate.announced (relation, announced_at);
CREATE INDEX announced_missing ON headgate.announced (relation, next_at) WHERE came_at IS NULL;

-- … and the deliveries of past windows that have come, as numbers. Where `came` is NULL the log could not be read any more.
CREATE TABLE headgate.past_window (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  window_from timestamptz NOT NULL,
  window_to timestamptz NOT NULL,
  came bigint,
  fetched bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (relation, window_from, window_to)
);

REVOKE ALL ON headgate.tombstone, headgate.traffic_hour, headgate.webhook_reconcile, headgate.reconciling, headgate.announced, headgate.past_window FROM PUBLIC;
GRANT SELECT (name) ON headgate.writer_role TO PUBLIC;
GRANT SELECT (relation, places) ON headgate.webhook_private TO PUBLIC;
GRANT SELECT (relation, secret_id) ON headgate.webhook_reconcile TO PUBLIC;
GRANT SELECT (reads, expires_at) ON headgate.token TO PUBLIC;
-- New refused requests are followed by their transactions (kit/position.ts): `headgate tail`, and `wait` of `headgate mcp`.
GRANT SELECT (xmin, engine_error, cause, sender, event, traceparent) ON headgate.rejected_requests TO PUBLIC;
ALTER TABLE headgate.webhook_private ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.webhook_private FOR SELECT USING (true);
ALTER TABLE headgate.webhook_reconcile ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.webhook_reconcile FOR SELECT USING (true);
