-- What Headgate alone may touch: nobody can lock it, hold it up, or learn what stands in it.

-- The names of the channels on which Headgate listens. Who does not know them can neither flood them nor overhear them.
CREATE TABLE headgate.channel (
  purpose text PRIMARY KEY,
  name text NOT NULL
);
SELECT headgate.new_channels();

CREATE TABLE headgate.cluster (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  identity text NOT NULL
);
INSERT INTO headgate.cluster (identity) VALUES (headgate.cluster_identity());

-- A text that Headgate has sealed: says whether the master key is the one of this database.
CREATE TABLE headgate.key_check (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  seal_id uuid NOT NULL,
  sealed text NOT NULL
);

-- Its one row is locked by whoever trims headgate.rejected_requests.
CREATE TABLE headgate.trimming (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO headgate.trimming DEFAULT VALUES;

-- Empty tables that are only locked: by transactions that write rows with keys, those of one table always the same one.
-- An advisory lock would be anybody's to take.
DO $body$
BEGIN
  FOR slot IN 0 .. 31 LOOP
    EXECUTE format('CREATE TABLE headgate.commit_lock_%s ()', slot);
  END LOOP;
END
$body$;

-- A role's oid says whose a secret is, and its name which role that is where a dump is restored. NULL: the role is gone,
-- and the secret is left to superusers; a new role of that name does not inherit it.
ALTER TABLE headgate.secret ADD COLUMN owner_oid oid;
ALTER TABLE headgate.secret ALTER COLUMN owner DROP NOT NULL, ALTER COLUMN owner DROP DEFAULT;
UPDATE headgate.secret s SET owner_oid = r.oid FROM pg_roles r WHERE r.rolname = s.owner;
UPDATE headgate.secret s SET owner = NULL WHERE s.owner_oid IS NULL;
CREATE INDEX secret_owner_oid ON headgate.secret (owner_oid);

-- 1: as Headgates before this version left it; sealed anew, or refused, by the first one of this version. 2: `sealed_expression`
-- holds the expression as Headgate has compiled and judged it, and nothing else is believed.
ALTER TABLE headgate.webhook_table ADD COLUMN seal_form smallint NOT NULL DEFAULT 1 CHECK (seal_form IN (1, 2));

-- Rows from before may be larger: they are left as they are, and not read (headgate.catalog_sizes).
ALTER TABLE headgate.secret
  ADD CONSTRAINT secret_bounds CHECK (
    octet_length(schema_name) <= 63 AND octet_length(name) <= 63 AND octet_length(backend) <= 63
    AND octet_length(sealed) <= 131072) NOT VALID;
ALTER TABLE headgate.webhook_table
  ADD CONSTRAINT webhook_table_bounds CHECK (
    octet_length(payload) <= 63 AND octet_length(options::text) <= 4096 AND octet_length(document::text) <= 4096
    AND octet_length(includes::text) <= 262144 AND octet_length(expression) <= 262144
    AND octet_length(sealed_expression) <= 1048576) NOT VALID;
ALTER TABLE headgate.webhook_table_secret
  ADD CONSTRAINT webhook_table_secret_bounds CHECK (position BETWEEN 1 AND 64 AND octet_length(alias) <= 63) NOT VALID;

---------------------------------------------------------------- who may change the catalog

-- Headgate's functions, for whoever asks for it as himself.
--
-- A SECURITY DEFINER function cannot know who called it: current_user is its owner, session_user is not who SET ROLE has
-- made the caller, and an argument can be a lie. The DEFAULT of a column is evaluated for the statement's own user, though,
-- and a column that nobody may fill cannot hold anything else. So whoever wants something of the catalog inserts a row
-- into headgate.request; a trigger with Headgate's rights reads from it who asks, does it or refuses, and stores nothing.
-- A privilege on columns, unlike one on the whole table, does not allow LOCK TABLE.

-- Up to the version before, row-level security let roles write themselves.
DROP POLICY IF EXISTS made ON headgate.secret;
DROP POLICY IF EXISTS changed ON headgate.secret;
DROP POLICY IF EXISTS dropped ON headgate.secret;
DROP POLICY IF EXISTS made ON headgate.webhook_table;
DROP POLICY IF EXISTS changed ON headgate.webhook_table;
DROP POLICY IF EXISTS dropped ON headgate.webhook_table;
DROP POLICY IF EXISTS made ON headgate.webhook_table_secret;
DROP POLICY IF EXISTS dropped ON headgate.webhook_table_secret;
DROP POLICY IF EXISTS changed ON headgate.rejected_requests;
DROP POLICY IF EXISTS dropped ON headgate.rejected_requests;
DROP FUNCTION IF EXISTS headgate.owns_secret(name);
DROP FUNCTION IF EXISTS headgate.find_secret(text, text, name[]);
DROP PROCEDURE IF EXISTS headgate.forget_dropped();

REVOKE ALL ON ALL TABLES IN SCHEMA headgate FROM PUBLIC;

DO $body$
DECLARE
  granted record;
BEGIN
  FOR granted IN
    SELECT c.oid::regclass AS relation, c.relname AS name, string_agg(quote_ident(a.attname), ', ') AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'headgate'::regnamespace
      AND c.relname IN ('secret', 'webhook_table', 'webhook_table_secret', 'rejected_requests', 'rejected_summary')
    GROUP BY c.oid
  LOOP
    EXECUTE format('REVOKE ALL (%s) ON %s FROM PUBLIC', granted.columns, granted.relation);
    IF granted.name IN ('rejected_requests', 'rejected_summary') THEN
      EXECUTE format('GRANT SELECT (%s) ON %s TO PUBLIC', granted.columns, granted.relation);
    END IF;
  END LOOP;
END
$body$;
GRANT SELECT (id, schema_name, name, owner, backend, created_at, altered_at) ON headgate.secret TO PUBLIC;
GRANT SELECT (relation, payload, options, document, includes, expression, created_at) ON headgate.webhook_table TO PUBLIC;
GRANT SELECT (relation, position, alias, secret_id) ON headgate.webhook_table_secret TO PUBLIC;

CREATE TABLE headgate.request (
  caller name NOT NULL DEFAULT current_user,
  action text NOT NULL,
  given jsonb NOT NULL
);
GRANT INSERT (action, given) ON headgate.request TO PUBLIC;
CREATE TRIGGER act BEFORE INSERT ON headgate.request FOR EACH ROW EXECUTE FUNCTION headgate.act();

-- Also where session_replication_role is replica: nothing may ever be stored there.
ALTER TABLE headgate.request ENABLE ALWAYS TRIGGER act;
