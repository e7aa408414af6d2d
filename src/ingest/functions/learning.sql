-- Secrets that their sender brings (LEARN), and certificates that Headgate has fetched.

-- Gives a secret its first value, while its window is open, and once: of any number of requests one is first. `known`: the seal under
-- which the caller has read it. Returns `learned`; `taken`, with its current value, if the window is still open; or `closed`.
CREATE OR REPLACE FUNCTION headgate.learn_secret(known uuid, new_seal uuid, new_sealed text, address text)
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

-- Another value came while the window was open: its owner is told, and the first value stays.
CREATE OR REPLACE FUNCTION headgate.contest_secret(known uuid, address text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.secret_learning l SET contested_at = now(), contested_from = address
  FROM headgate.secret s
  WHERE s.id = l.secret_id AND s.seal_id = known AND l.contested_at IS NULL AND l.until > clock_timestamp()
$body$;

-- The sealed value of a secret that was learned; returned once.
CREATE OR REPLACE FUNCTION headgate.reveal_learned(secret_schema text, secret_name text) RETURNS TABLE (seal_id uuid, sealed text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.secret_learning l SET revealed_at = now()
  FROM headgate.secret s
  WHERE s.id = l.secret_id AND s.name = secret_name AND s.schema_name = secret_schema
    AND l.learned_at IS NOT NULL AND l.revealed_at IS NULL
  RETURNING s.seal_id, s.sealed
$body$;

-- Replaces the value of a secret that learns by a certificate, at any time: the caller has the certificate from the host of its issuer, and a
-- message that it verifies. False: the secret's value was given by its owner.
CREATE OR REPLACE FUNCTION headgate.keep_certificate(known uuid, new_seal uuid, new_sealed text, host text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_id uuid;
BEGIN
  SELECT s.id INTO found_id FROM headgate.secret s WHERE s.seal_id = known FOR UPDATE;
  IF found_id IS NULL THEN
    -- Another Headgate was first.
    RETURN true;
  END IF;
  UPDATE headgate.secret_learning l SET learned_at = now(), learned_from = host WHERE l.secret_id = found_id;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE headgate.secret s SET seal_id = new_seal, sealed = new_sealed, altered_at = now() WHERE s.id = found_id;
  RETURN true;
END
$body$;
