-- The role that stores rows of tables that run no code: on Headgate's own engine `headgate_commit`, which may do nothing else, and
-- elsewhere Headgate's own.

-- Lets a role write into a table. Run by its owner, for Headgate's own role (NULL), if that stores rows; or by a superuser, for the other one. The schema may
-- belong to somebody else, who has then granted USAGE.
CREATE OR REPLACE PROCEDURE headgate.admit(relation oid, writer name)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place record;
BEGIN
  writer := coalesce(writer, (SELECT pg_get_userbyid(c.relowner) FROM pg_class c
    WHERE c.oid = 'headgate.webhook_table'::regclass AND NOT EXISTS (SELECT FROM headgate.writer_role)));
  IF writer IS NULL THEN
    RETURN;
  END IF;
  SELECT n.oid, n.nspname, n.nspowner INTO place
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = admit.relation;
  IF NOT has_schema_privilege(writer, place.oid, 'USAGE') THEN
    IF pg_has_role(place.nspowner, 'USAGE') THEN
      EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place.nspname, writer);
    ELSE
      RAISE EXCEPTION USING ERRCODE = '42501',
        MESSAGE = format('role "%s", as which Headgate writes, may not use schema "%s"', writer, place.nspname),
        HINT = format('Let the owner of the schema run: GRANT USAGE ON SCHEMA %I TO %I', place.nspname, writer);
    END IF;
  END IF;
  -- UPDATE and DELETE for tables with a key, also with one that is added later.
  IF NOT (has_table_privilege(writer, admit.relation, 'INSERT')
          AND has_table_privilege(writer, admit.relation, 'SELECT')
          AND has_table_privilege(writer, admit.relation, 'UPDATE')
          AND has_table_privilege(writer, admit.relation, 'DELETE')) THEN
    EXECUTE format('GRANT INSERT, SELECT, UPDATE, DELETE ON TABLE %s TO %I', admit.relation::regclass, writer);
  END IF;
  -- The sequences of SERIAL and identity columns.
  FOR place IN
    SELECT d.objid::regclass AS sequence FROM pg_depend d JOIN pg_class s ON s.oid = d.objid
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = admit.relation
      AND d.deptype IN ('a', 'i')
      AND CASE WHEN s.relkind = 'S' THEN NOT has_sequence_privilege(writer, d.objid, 'USAGE') END
  LOOP
    EXECUTE format('GRANT USAGE ON SEQUENCE %s TO %I', place.sequence, writer);
  END LOOP;
END
$body$;

-- Lets a role write into all webhook tables, once on each server, and in a restored database into those without any rights: what an owner
-- revokes stays so. NULL: there is no such role here.
CREATE OR REPLACE PROCEDURE headgate.let_writer_in(writer name)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  it record;
  server text := format('%s, role %s, ', headgate.cluster_identity(), to_regrole(quote_ident(writer))::oid);
  here text := server || (SELECT format('database %s', d.oid) FROM pg_database d WHERE d.datname = current_database());
  known text := (SELECT w.mark FROM headgate.writer_role w WHERE w.name = writer);
BEGIN
  IF writer IS NULL THEN
    DELETE FROM headgate.writer_role;
    RETURN;
  END IF;
  IF NOT has_database_privilege(writer, current_database(), 'CONNECT') THEN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), writer);
  END IF;
  FOR it IN
    SELECT p.oid::regprocedure AS signature FROM pg_proc p
    WHERE p.pronamespace = 'headgate'::regnamespace AND p.proname IN ('claim_deliveries', 'advance', 'lock_keys')
      AND NOT has_function_privilege(writer, p.oid, 'EXECUTE')
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', it.signature, writer);
  END LOOP;
  IF known = here THEN
    RETURN;
  END IF;
  FOR it IN
    SELECT c.oid AS relation FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation
    WHERE starts_with(known, server) IS NOT TRUE OR c.relacl IS NULL
  LOOP
    CALL headgate.admit(it.relation, writer);
  END LOOP;
  INSERT INTO headgate.writer_role (name, mark) VALUES (writer, here)
  ON CONFLICT (only_row) DO UPDATE SET name = excluded.name, mark = excluded.mark;
END
$body$;
