-- The certificate that Headgates share: only one of them, however many there are, requests it from an authority.

-- Whether `asker` may request it, for this many seconds: no other Headgate is requesting it, or its time has run out. A row that has not been
-- kept for a year belongs to domains that are no longer served.
CREATE OR REPLACE FUNCTION headgate.begin_acme(name text, asker uuid, seconds int) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  DELETE FROM headgate.acme a WHERE a.kept_at < now() - interval '1 year' AND a.name <> begin_acme.name;
  INSERT INTO headgate.acme AS a (name, asker, asking_until)
  VALUES (begin_acme.name, begin_acme.asker, now() + make_interval(secs => begin_acme.seconds))
  ON CONFLICT ON CONSTRAINT acme_pkey DO UPDATE SET asker = excluded.asker, asking_until = excluded.asking_until
  WHERE a.asking_until IS NULL OR a.asking_until < now();
  RETURN FOUND;
END
$body$;

-- False: the time of `asker` was over, and nothing has been kept.
CREATE OR REPLACE FUNCTION headgate.keep_acme(name text, asker uuid, seal_id uuid, sealed text, ends boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  UPDATE headgate.acme a SET seal_id = keep_acme.seal_id, sealed = keep_acme.sealed, kept_at = now(),
    asking_until = CASE WHEN NOT keep_acme.ends THEN a.asking_until END
  WHERE a.name = keep_acme.name AND a.asker = keep_acme.asker AND a.asking_until >= now();
  RETURN FOUND;
END
$body$;
