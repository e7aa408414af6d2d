-- Webhooks that were stored on Headgate's disk while the database was unreachable: how far they have arrived.

-- Records the requests `first` to `last` of a table as arrived, once: if two hand over the same requests, the second
-- waits for the first, and fails.
CREATE OR REPLACE FUNCTION headgate.advance(spool uuid, relation oid, first bigint, last bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF last >= first AND first = 1 THEN
    INSERT INTO headgate.spool_position (spool, relation, position) VALUES (advance.spool, advance.relation, last)
    ON CONFLICT DO NOTHING;
  ELSIF last >= first THEN
    UPDATE headgate.spool_position p SET position = last, moved_at = now()
    WHERE p.spool = advance.spool AND p.relation = advance.relation AND p.position = first - 1;
  END IF;
  IF last < first OR NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'HG002', MESSAGE = 'the requests have arrived already';
  END IF;
END
$body$;

-- Identifies this database, so that a spool knows whether it is its own: another server, or a database that was created
-- again, gives the same numbers to other tables.
CREATE OR REPLACE FUNCTION headgate.home() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT format('%s, %s', headgate.cluster_identity(), d.oid) FROM pg_database d WHERE d.datname = current_database()
$body$;

-- `state`: what the Headgate that was asked has on its disk, by oid and number. Shown to the owner of a table; what belongs to no table of
-- this database, under 0, to the owner of the schema headgate.
CREATE OR REPLACE FUNCTION headgate.show_spool(state jsonb)
RETURNS TABLE ("Table" text, "State" text, "Requests" bigint, "Since" timestamptz, "Reason" text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT CASE WHEN c.oid IS NOT NULL THEN format('%I.%I', n.nspname, c.relname) END, s.value ->> 'state',
    (s.value ->> 'requests')::bigint, to_timestamp((s.value ->> 'since')::double precision), s.value ->> 'reason'
  FROM jsonb_each(state) s
  LEFT JOIN pg_class c ON c.oid = split_part(s.key, '/', 1)::oid
  LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE CASE WHEN c.oid IS NOT NULL THEN headgate.owns_table(c.oid)
    ELSE (SELECT pg_has_role(h.nspowner, 'USAGE') FROM pg_namespace h WHERE h.nspname = 'headgate') END
  ORDER BY 1, 2
$body$;
