-- What Headgate alone may touch: nobody can lock it, hold it up, or learn what stands in it.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

-- A temporary relation or type is found before PostgreSQL's own unless pg_temp is named last: a role could put its own
-- `pg_class` or `regclass` under a function that decides for others or runs with Headgate's rights.
DO $body$
DECLARE
  ours record;
BEGIN
  FOR ours IN
    SELECT p.oid::regprocedure AS signature, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS kind
    FROM pg_proc p WHERE p.pronamespace = 'headgate'::regnamespace AND p.proconfig IS NOT NULL
  LOOP
    EXECUTE format('ALTER %s %s SET search_path = pg_catalog, pg_temp', ours.kind, ours.signature);
  END LOOP;
END
$body$;

-- The names of the channels on which Headgate listens. Who does not know them can neither flood them nor overhear them.
CREATE TABLE headgate.channel (
  purpose text PRIMARY KEY,
  name text NOT NULL
);

CREATE FUNCTION headgate.new_channels() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.channel (purpose, name)
  SELECT p.purpose, 'headgate_' || replace(gen_random_uuid()::text, '-', '') FROM unnest(ARRAY['catalog', 'rejected']) AS p (purpose)
  ON CONFLICT (purpose) DO UPDATE SET name = EXCLUDED.name
$body$;
SELECT headgate.new_channels();

-- The server whose roles the oids in headgate.secret are of. A restored dump brings that of another one with it.
CREATE FUNCTION headgate.cluster_identity() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN (SELECT 'cluster ' || c.system_identifier FROM pg_control_system() c);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN (SELECT 'database ' || d.oid FROM pg_database d WHERE d.datname = current_database());
END
$body$;

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

-- Until the end of the transaction. No SET clause: every name is qualified instead, because this runs once a group.
CREATE FUNCTION headgate.lock_keys(relation bigint, alone boolean) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  EXECUTE pg_catalog.format('LOCK TABLE headgate.commit_lock_%s IN %s MODE', relation OPERATOR(pg_catalog.%) 32,
    CASE WHEN alone THEN 'EXCLUSIVE' ELSE 'ROW SHARE' END);
END
$body$;
REVOKE EXECUTE ON FUNCTION headgate.lock_keys(bigint, boolean) FROM PUBLIC;

---------------------------------------------------------------- owners of secrets

-- A role's oid says whose a secret is, and its name which role that is where a dump is restored. NULL: the role is gone,
-- and the secret is left to superusers; a new role of that name does not inherit it.
ALTER TABLE headgate.secret ADD COLUMN owner_oid oid;
ALTER TABLE headgate.secret ALTER COLUMN owner DROP NOT NULL, ALTER COLUMN owner DROP DEFAULT;
UPDATE headgate.secret s SET owner_oid = r.oid FROM pg_roles r WHERE r.rolname = s.owner;
UPDATE headgate.secret s SET owner = NULL WHERE s.owner_oid IS NULL;
CREATE INDEX secret_owner_oid ON headgate.secret (owner_oid);

-- On the server where the oids are at home the names follow the roles; on another one the names say once who is meant.
CREATE FUNCTION headgate.keep_owners() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  here text := headgate.cluster_identity();
BEGIN
  IF here IS DISTINCT FROM (SELECT c.identity FROM headgate.cluster c) THEN
    UPDATE headgate.secret s SET owner_oid = (SELECT r.oid FROM pg_roles r WHERE r.rolname = s.owner);
    DELETE FROM headgate.cluster;
    INSERT INTO headgate.cluster (identity) VALUES (here);
    PERFORM headgate.new_channels();
  ELSIF NOT EXISTS (
    SELECT FROM headgate.secret s LEFT JOIN pg_roles r ON r.oid = s.owner_oid WHERE s.owner IS DISTINCT FROM r.rolname
  ) THEN
    RETURN;
  END IF;
  UPDATE headgate.secret s SET owner = r.rolname, owner_oid = r.oid
  FROM headgate.secret same LEFT JOIN pg_roles r ON r.oid = same.owner_oid
  WHERE s.id = same.id AND (s.owner IS DISTINCT FROM r.rolname OR s.owner_oid IS DISTINCT FROM r.oid);
END
$body$;

---------------------------------------------------------------- sizes

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
