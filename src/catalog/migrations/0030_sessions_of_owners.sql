-- Rows of tables that run code are stored in sessions of their owners, all others by one role (functions/writer.sql).

-- The role that stores rows of tables that run no code, if that is not Headgate's own; `mark` says where it was let in.
CREATE TABLE headgate.writer_role (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  name name NOT NULL,
  mark text NOT NULL
);
GRANT SELECT (name) ON headgate.writer_role TO PUBLIC;

-- The owner in whose session a delivery was claimed, who may have claimed what it has not stored; NULL: Headgate itself has.
ALTER TABLE headgate.delivery ADD COLUMN IF NOT EXISTS claimed_by oid;

-- Functions of owners, which stored their rows before.
DO $body$
BEGIN
  EXECUTE (SELECT coalesce(string_agg(format('DROP SCHEMA %I CASCADE;', n.nspname), ''), 'SELECT') FROM pg_namespace n
    WHERE starts_with(n.nspname, 'headgate_owner_') AND n.nspowner = (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user));
END
$body$;

-- What is asked about a table is asked by whoever stores its rows: these are made again, for everybody.
DROP FUNCTION IF EXISTS headgate.confirm(text, oid, text, oid), headgate.hold_inert(text, oid, text), headgate.stays(text, oid, text, oid);
