-- Secrets: who owns them, and what headgate.request is asked for (`me` is the role that asks).

-- Of secrets and tokens. On the server that the oids belong to, names are updated from the roles, except those of rows that a role is changing; on
-- another server the roles are looked up once, by name.
CREATE OR REPLACE FUNCTION headgate.keep_owners() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  here text := headgate.cluster_identity();
  elsewhere boolean := here IS DISTINCT FROM (SELECT c.identity FROM headgate.cluster c);
  owned text;
BEGIN
  FOREACH owned IN ARRAY ARRAY['headgate.secret', 'headgate.token'] LOOP
    IF elsewhere THEN
      EXECUTE format('UPDATE %s s SET owner_oid = (SELECT r.oid FROM pg_roles r WHERE r.rolname = s.owner)', owned);
    END IF;
    EXECUTE format($sql$
      UPDATE %1$s s SET owner = known.rolname, owner_oid = known.oid
      FROM (
        SELECT same.id, r.rolname, r.oid FROM %1$s same LEFT JOIN pg_roles r ON r.oid = same.owner_oid
        WHERE same.owner IS DISTINCT FROM r.rolname OR same.owner_oid IS DISTINCT FROM r.oid
        FOR NO KEY UPDATE OF same SKIP LOCKED
      ) AS known WHERE s.id = known.id$sql$, owned);
  END LOOP;
  IF elsewhere THEN
    CALL headgate.place_totals();
    DELETE FROM headgate.cluster;
    INSERT INTO headgate.cluster (identity) VALUES (here);
    PERFORM headgate.new_channels();
  END IF;
END
$body$;

-- On another server the sums of a role are those of the role of its name; of two that had the name, those of the later one.
CREATE OR REPLACE PROCEDURE headgate.place_totals()
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  DELETE FROM headgate.traffic_total t WHERE t.owner <> '' AND (
    NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = t.owner)
    OR EXISTS (SELECT FROM headgate.traffic_total o WHERE o.owner_oid > t.owner_oid AND o.owner = t.owner));
  UPDATE headgate.traffic_total t SET owner_oid = r.oid FROM pg_roles r WHERE r.rolname = t.owner AND r.oid <> t.owner_oid
$body$;

CREATE OR REPLACE FUNCTION headgate.may_use(me oid, owner oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce(
    (SELECT pg_has_role(me, r.oid, 'USAGE') FROM pg_roles r WHERE r.oid = owner),
    (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = me), false)
$body$;

-- In the given schema, otherwise the first one on the caller's search path. The caller must be allowed to use it.
CREATE OR REPLACE FUNCTION headgate.find_secret(me oid, secret_schema text, secret_name text, caller_schemas text[]) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_secret record;
BEGIN
  SELECT s.id, s.owner, s.owner_oid INTO found_secret FROM headgate.secret s
  WHERE s.name = secret_name
    AND CASE WHEN secret_schema IS NULL THEN s.schema_name = ANY (caller_schemas) ELSE s.schema_name = secret_schema END
  ORDER BY array_position(caller_schemas, s.schema_name)
  LIMIT 1;
  IF found_secret.id IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42704',
      MESSAGE = format('secret "%s" does not exist', concat_ws('.', secret_schema, secret_name));
  ELSIF NOT headgate.may_use(me, found_secret.owner_oid) THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = format('permission denied for secret "%s"', concat_ws('.', secret_schema, secret_name)),
      HINT = coalesce(format('It belongs to role "%s"; use it as that role or as a member of it.', found_secret.owner),
        'The role that it belonged to is gone: a superuser may drop it.');
  END IF;
  RETURN found_secret.id;
END
$body$;

-- What a statement says of a secret's value besides the value: `forms`, those that it has, or for how many seconds its sender may bring it (`learnSeconds`).
CREATE OR REPLACE FUNCTION headgate.note_value(given jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_id uuid := (SELECT s.id FROM headgate.secret s WHERE s.seal_id = (given ->> 'sealId')::uuid);
BEGIN
  -- IF NOT EXISTS leaves a secret as it is.
  IF found_id IS NULL THEN
    RETURN;
  END IF;
  DELETE FROM headgate.secret_form f WHERE f.secret_id = found_id;
  DELETE FROM headgate.secret_learning l WHERE l.secret_id = found_id;
  IF given ->> 'learnSeconds' IS NULL THEN
    INSERT INTO headgate.secret_form (secret_id, forms) VALUES (found_id, ARRAY(SELECT jsonb_array_elements_text(given -> 'forms')));
  ELSE
    INSERT INTO headgate.secret_learning (secret_id, opened_seal, until)
    VALUES (found_id, (given ->> 'sealId')::uuid, now() + make_interval(secs => (given ->> 'learnSeconds')::int));
  END IF;
END
$body$;

-- `given`: {schema, name, backend, sealId, sealed, ifNotExists}, and as for headgate.note_value()
CREATE OR REPLACE FUNCTION headgate.do_create_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place text := coalesce(given ->> 'schema', caller_schemas[1]);
  secret_name text := given ->> 'name';
BEGIN
  IF place IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = 'no schema has been selected to create in';
  ELSIF to_regnamespace(quote_ident(place)) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = format('schema "%s" does not exist', place);
  ELSIF NOT has_schema_privilege(me, place, 'CREATE') THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for schema %s', place);
  ELSIF (SELECT count(*) >= 1000 FROM headgate.secret s WHERE s.owner_oid = me)
    AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = me) THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a role that is no superuser has at most 1000 secrets';
  END IF;
  PERFORM headgate.refuse_own_schema(place);
  INSERT INTO headgate.secret (schema_name, name, owner, owner_oid, backend, seal_id, sealed)
  VALUES (place, secret_name, (SELECT r.rolname FROM pg_roles r WHERE r.oid = me), me, given ->> 'backend',
    (given ->> 'sealId')::uuid, given ->> 'sealed')
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    IF (given ->> 'ifNotExists')::boolean THEN
      RAISE NOTICE USING ERRCODE = '42710', MESSAGE = format('secret "%s" already exists, skipping', secret_name);
    ELSE
      RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('secret "%s" already exists', secret_name);
    END IF;
  END IF;
  PERFORM headgate.note_value(given);
END
$body$;

CREATE OR REPLACE FUNCTION headgate.do_alter_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.secret s SET
    backend = coalesce(given ->> 'backend', s.backend),
    seal_id = (given ->> 'sealId')::uuid,
    sealed = given ->> 'sealed',
    altered_at = now()
  WHERE s.id = (SELECT headgate.find_secret(me, given ->> 'schema', given ->> 'name', caller_schemas));
  -- Logs that could not be read with the former value are tried at once.
  UPDATE headgate.reconciling r SET next_at = least(r.next_at, now()) FROM headgate.webhook_reconcile b
  WHERE b.relation = r.relation AND r.problem IS NOT NULL
    AND b.secret_id = (SELECT headgate.find_secret(me, given ->> 'schema', given ->> 'name', caller_schemas));
  SELECT headgate.note_value(given)
$body$;

CREATE OR REPLACE FUNCTION headgate.do_drop_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  secret_name text := given ->> 'name';
  found_id uuid;
  users text;
BEGIN
  BEGIN
    found_id := headgate.find_secret(me, given ->> 'schema', secret_name, caller_schemas);
  EXCEPTION WHEN undefined_object THEN
    IF NOT (given ->> 'ifExists')::boolean THEN
      RAISE;
    END IF;
    RAISE NOTICE USING ERRCODE = '42704',
      MESSAGE = format('secret "%s" does not exist, skipping', concat_ws('.', given ->> 'schema', secret_name));
    RETURN;
  END;
  -- Rows of tables that are gone, where no event trigger has seen them go.
  DELETE FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation);
  -- A table that is being made with this secret holds a lock on its row; the DELETE waits for it and then fails.
  DELETE FROM headgate.secret s WHERE s.id = found_id;
EXCEPTION WHEN foreign_key_violation THEN
  SELECT string_agg(DISTINCT format('table %s depends on secret %s', b.relation, secret_name), E'\n')
  INTO users FROM (
    SELECT v.relation::text FROM headgate.webhook_table_secret v WHERE v.secret_id = found_id
    UNION ALL
    SELECT a.relation::text FROM headgate.webhook_answer_secret a WHERE a.secret_id = found_id
    UNION ALL
    SELECT i.relation::text FROM headgate.webhook_into i WHERE i.secret_id = found_id
    UNION ALL
    SELECT r.relation::text FROM headgate.webhook_reconcile r WHERE r.secret_id = found_id
  ) AS b;
  RAISE EXCEPTION USING ERRCODE = '2BP01',
    MESSAGE = format('cannot drop secret %s because other objects depend on it', secret_name),
    DETAIL = users,
    HINT = 'Drop the tables, or give them another VALIDATE with ALTER TABLE ... VALIDATE, and ALTER TABLE ... DROP ANSWER, first.';
END
$body$;

CREATE OR REPLACE FUNCTION headgate.show_secrets() RETURNS TABLE ("Name" text, "Schema" text, "Backend" text, "Learned" text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT s.name, s.schema_name, s.backend, CASE
      WHEN l.until IS NULL THEN NULL
      WHEN l.learned_at IS NULL AND l.until > now() THEN format('learning until %s', date_trunc('second', l.until))
      WHEN l.learned_at IS NULL THEN 'nothing learned: ALTER SECRET ... WITH (learn = ''10 minutes'') opens it again'
      ELSE format('learned at %s from %s', date_trunc('second', l.learned_at), l.learned_from) END
    || CASE WHEN l.contested_at IS NULL THEN ''
      ELSE format('; contested: another value came at %s from %s', date_trunc('second', l.contested_at), l.contested_from) END
  FROM headgate.secret s LEFT JOIN headgate.learned_secrets l ON l.schema_name = s.schema_name AND l.name = s.name
  ORDER BY s.name, s.schema_name
$body$;
