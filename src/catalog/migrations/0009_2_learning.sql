-- Secrets that the sender brings: they have no value until the first request of its handshake, in a window that their owner opens.

-- A secret without a row was given its value. Headgate alone writes it.
CREATE TABLE headgate.secret_learning (
  secret_id uuid PRIMARY KEY REFERENCES headgate.secret ON DELETE CASCADE,
  -- The seal of the empty value: who has read it may bring the first one.
  opened_seal uuid NOT NULL UNIQUE,
  until timestamptz NOT NULL,
  learned_at timestamptz,
  learned_from text,
  -- Another value came while the window was open.
  contested_at timestamptz,
  contested_from text,
  revealed_at timestamptz
);

CREATE FUNCTION headgate.open_learning(given jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_id uuid;
BEGIN
  -- None: IF NOT EXISTS has left the secret as it is.
  SELECT s.id INTO found_id FROM headgate.secret s WHERE s.seal_id = (given ->> 'sealId')::uuid;
  IF found_id IS NULL THEN
    RETURN;
  END IF;
  DELETE FROM headgate.secret_learning l WHERE l.secret_id = found_id;
  IF given ->> 'learnSeconds' IS NOT NULL THEN
    DELETE FROM headgate.secret_form f WHERE f.secret_id = found_id;
    INSERT INTO headgate.secret_learning (secret_id, opened_seal, until)
    VALUES (found_id, (given ->> 'sealId')::uuid, now() + make_interval(secs => (given ->> 'learnSeconds')::int));
  END IF;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.do_create_formed_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.do_create_secret(me, given, caller_schemas);
  -- One that was there before keeps its value, and its forms.
  INSERT INTO headgate.secret_form (secret_id, forms)
  SELECT s.id, ARRAY(SELECT jsonb_array_elements_text(given -> 'forms')) FROM headgate.secret s
  WHERE s.seal_id = (given ->> 'sealId')::uuid
  ON CONFLICT DO NOTHING;
  PERFORM headgate.open_learning(given);
END
$body$;

CREATE OR REPLACE FUNCTION headgate.do_alter_formed_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.do_alter_secret(me, given, caller_schemas);
  INSERT INTO headgate.secret_form AS f (secret_id, forms)
  SELECT s.id, ARRAY(SELECT jsonb_array_elements_text(given -> 'forms')) FROM headgate.secret s
  WHERE s.seal_id = (given ->> 'sealId')::uuid
  ON CONFLICT (secret_id) DO UPDATE SET forms = excluded.forms;
  PERFORM headgate.open_learning(given);
END
$body$;

CREATE PROCEDURE headgate.create_learning_secret(
  secret_schema text, secret_name text, if_not_exists boolean, backend text, seal_id uuid, sealed text, seconds text,
  caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('create formed secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'ifNotExists', if_not_exists, 'backend', backend,
    'sealId', seal_id, 'sealed', sealed, 'forms', '[]'::jsonb, 'learnSeconds', seconds, 'schemas', caller_schemas))
$body$;

CREATE PROCEDURE headgate.alter_learning_secret(
  secret_schema text, secret_name text, backend text, seal_id uuid, sealed text, seconds text, caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('alter formed secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'backend', backend, 'sealId', seal_id, 'sealed', sealed,
    'forms', '[]'::jsonb, 'learnSeconds', seconds, 'schemas', caller_schemas))
$body$;

-- Gives a secret its first value, while its window is open, and once: of any number of requests one is first. `known`: the seal under
-- which the caller has read it. Gives `learned`; `taken` with what it has, where the window is still open; or `closed`.
CREATE FUNCTION headgate.learn_secret(known uuid, new_seal uuid, new_sealed text, address text)
RETURNS TABLE (outcome text, seal_id uuid, sealed text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_one record;
BEGIN
  SELECT l.secret_id, l.until > clock_timestamp() AS is_open, l.learned_at INTO found_one
  FROM headgate.secret_learning l
  WHERE l.secret_id = (SELECT k.secret_id FROM headgate.secret_learning k JOIN headgate.secret s ON s.id = k.secret_id
    WHERE k.opened_seal = known OR s.seal_id = known LIMIT 1)
  FOR UPDATE;
  IF found_one.is_open IS NOT TRUE THEN
    RETURN QUERY SELECT 'closed', NULL::uuid, NULL::text;
  ELSIF found_one.learned_at IS NOT NULL THEN
    RETURN QUERY SELECT 'taken', s.seal_id, s.sealed FROM headgate.secret s WHERE s.id = found_one.secret_id;
  ELSE
    UPDATE headgate.secret_learning l SET learned_at = now(), learned_from = address WHERE l.secret_id = found_one.secret_id;
    UPDATE headgate.secret s SET seal_id = new_seal, sealed = new_sealed, altered_at = now() WHERE s.id = found_one.secret_id;
    RETURN QUERY SELECT 'learned', NULL::uuid, NULL::text;
  END IF;
END
$body$;
REVOKE ALL ON FUNCTION headgate.learn_secret(uuid, uuid, text, text) FROM PUBLIC;

-- Another value came in the window: its owner is told, and the first one stays.
CREATE FUNCTION headgate.contest_secret(known uuid, address text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.secret_learning l SET contested_at = now(), contested_from = address
  FROM headgate.secret s
  WHERE s.id = l.secret_id AND s.seal_id = known AND l.contested_at IS NULL AND l.until > clock_timestamp()
$body$;
REVOKE ALL ON FUNCTION headgate.contest_secret(uuid, text) FROM PUBLIC;

-- What is sealed of a secret that was learned, once.
CREATE FUNCTION headgate.reveal_learned(secret_schema text, secret_name text) RETURNS TABLE (seal_id uuid, sealed text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.secret_learning l SET revealed_at = now()
  FROM headgate.secret s
  WHERE s.id = l.secret_id AND s.name = secret_name AND s.schema_name = secret_schema
    AND l.learned_at IS NOT NULL AND l.revealed_at IS NULL
  RETURNING s.seal_id, s.sealed
$body$;
REVOKE ALL ON FUNCTION headgate.reveal_learned(text, text) FROM PUBLIC;

-- What is told of them to who may use them. The condition stands here because a view runs with the rights of its owner.
CREATE VIEW headgate.learned_secrets WITH (security_barrier) AS
SELECT s.schema_name, s.name, l.until, l.learned_at, l.learned_from, l.contested_at, l.contested_from, l.revealed_at
FROM headgate.secret_learning l JOIN headgate.secret s ON s.id = l.secret_id
WHERE s.owner_oid IS NOT NULL AND pg_has_role(s.owner_oid, 'USAGE');
-- By columns: a privilege on the whole would allow LOCK TABLE.
GRANT SELECT (schema_name, name, until, learned_at, learned_from, contested_at, contested_from, revealed_at)
  ON headgate.learned_secrets TO PUBLIC;

-- "Learned": NULL where the secret was given its value.
DROP FUNCTION headgate.show_secrets();
CREATE FUNCTION headgate.show_secrets() RETURNS TABLE ("Name" text, "Schema" text, "Backend" text, "Learned" text)
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
