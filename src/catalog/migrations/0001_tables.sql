-- The catalog of one database: which tables are webhook tables, how their requests are checked, and the sealed secrets.
--
-- Each numbered file is run once, behind functions/tables.sql and in front of all other functions and of the views, which always
-- are those of the newest version (migrate.ts). What a file asks for of functions is therefore in that one. On PostgreSQL 14 to 18.

GRANT USAGE ON SCHEMA headgate TO PUBLIC;

-- What this database allows Headgate: one row.
CREATE TABLE headgate.capability (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  event_triggers boolean NOT NULL
);

-- `owner` is a role's name and not a regrole: a dump can then be restored where the role does not exist.
CREATE TABLE headgate.secret (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  schema_name text NOT NULL,
  name text NOT NULL,
  owner name NOT NULL DEFAULT current_user,
  backend text NOT NULL,
  seal_id uuid NOT NULL,
  sealed text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  altered_at timestamptz,
  UNIQUE (schema_name, name)
);

-- regclass survives dump and restore (it is dumped as a name) and pg_upgrade (which keeps oids).
CREATE TABLE headgate.webhook_table (
  relation regclass PRIMARY KEY,
  -- The name of the request's body inside the expression.
  payload text NOT NULL,
  options jsonb NOT NULL CHECK (jsonb_typeof(options) = 'object'),
  -- The column that takes the whole document, as headgate.place() writes it; null: the document's keys fill the columns.
  document jsonb CHECK (document IS NULL OR headgate.is_place(document) IS TRUE),
  -- Columns that are filled from the request, in order: places with `what` (header, headers, timestamp) and `header`.
  includes jsonb NOT NULL CHECK (headgate.are_includes(includes) IS TRUE),
  -- With secret literals masked; null: the table has no VALIDATE.
  expression text,
  -- The whole expression, sealed; null where nothing had to be masked.
  sealed_expression text,
  seal_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((sealed_expression IS NULL) = (seal_id IS NULL)),
  CHECK (sealed_expression IS NULL OR expression IS NOT NULL)
);

CREATE TABLE headgate.webhook_table_secret (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  position int NOT NULL,
  alias text NOT NULL,
  secret_id uuid NOT NULL REFERENCES headgate.secret,
  PRIMARY KEY (relation, position),
  UNIQUE (relation, alias)
);
CREATE INDEX webhook_table_secret_secret_id ON headgate.webhook_table_secret (secret_id);

ALTER TABLE headgate.secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE headgate.webhook_table ENABLE ROW LEVEL SECURITY;
ALTER TABLE headgate.webhook_table_secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.secret FOR SELECT USING (true);
CREATE POLICY seen ON headgate.webhook_table FOR SELECT USING (true);
CREATE POLICY seen ON headgate.webhook_table_secret FOR SELECT USING (true);
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.secret
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_table
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_table_secret
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();

DO $body$
BEGIN
  CREATE EVENT TRIGGER headgate_ddl ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN') EXECUTE FUNCTION headgate.on_ddl();
  CREATE EVENT TRIGGER headgate_drop ON sql_drop EXECUTE FUNCTION headgate.on_drop();
  INSERT INTO headgate.capability (event_triggers) VALUES (true);
EXCEPTION WHEN insufficient_privilege THEN
  INSERT INTO headgate.capability (event_triggers) VALUES (false);
END
$body$;
