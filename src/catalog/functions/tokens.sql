-- Tokens of the events gateway: who owns them, what they may store or read, and what the SQL port calls.

-- Whether a role may, at this moment, do this with every row of a table (INSERT, SELECT: and every column): false if a policy could refuse or hide one.
CREATE OR REPLACE FUNCTION headgate.may_with_all(role oid, relation oid, wanted text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce((
    SELECT has_schema_privilege(r.oid, c.relnamespace, 'USAGE') AND has_table_privilege(r.oid, c.oid, wanted)
      AND (NOT c.relrowsecurity OR r.rolsuper OR r.rolbypassrls
        OR pg_has_role(r.oid, c.relowner, 'USAGE') AND NOT c.relforcerowsecurity)
    FROM pg_class c JOIN pg_roles r ON r.oid = may_with_all.role
    WHERE c.oid = may_with_all.relation AND (c.relkind = 'r' OR c.relkind = 'p' AND wanted = 'INSERT') AND c.relpersistence <> 't'), false)
$body$;

CREATE OR REPLACE FUNCTION headgate.refuse_token_table(me oid, relation oid, reads boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_table record;
BEGIN
  SELECT c.relkind, c.relpersistence, c.relrowsecurity, n.nspname, c.relname INTO found_table
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = refuse_token_table.relation;
  IF found_table.relkind NOT IN ('r', 'p') OR reads AND found_table.relkind = 'p' OR found_table.relpersistence = 't'
    OR found_table.nspname ~ '^pg_' OR found_table.nspname IN ('headgate', 'information_schema')
  THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('a token cannot be for "%s"', found_table.relname),
      HINT = CASE WHEN reads THEN 'A token FOR SELECT is for tables: no views and partitioned tables, and neither temporary tables nor those of the system.'
        ELSE 'A token is for tables, partitioned ones too: no views, and neither temporary tables nor those of the system.' END;
  ELSIF headgate.may_with_all(me, relation, CASE WHEN reads THEN 'SELECT' ELSE 'INSERT' END) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for table %s', found_table.relname),
      HINT = CASE WHEN found_table.relrowsecurity THEN 'A token has no row-level security: only whom it does not hold for may make one.'
        WHEN reads THEN 'A role that creates a token FOR SELECT needs SELECT on its tables.'
        ELSE 'Whoever makes a token may himself INSERT into its tables.' END;
  END IF;
END
$body$;

-- `given`: {name, relations, origins, rate} and, of a token FOR SELECT, {seconds}, its lifetime. Returns the token, which is not stored anywhere.
CREATE OR REPLACE FUNCTION headgate.do_create_token(me oid, given jsonb) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  -- Each has 122 random bits of the server's own generator; together they are more than what a SHA-256 holds.
  token text := 'hgt_' || encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  token_hash bytea := sha256(convert_to(token, 'UTF8'));
  relations oid[] := ARRAY(SELECT DISTINCT e.value::oid FROM jsonb_array_elements_text(given -> 'relations') AS e (value));
  relation oid;
  made uuid;
  -- Of each role: others cannot use them up.
  most int := CASE WHEN (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = me) THEN 10000 ELSE 1000 END;
  seconds int := (given ->> 'seconds')::int;
  reads boolean := seconds IS NOT NULL;
  wanted text := CASE WHEN reads THEN 'SELECT' ELSE 'INSERT' END;
  writer name := coalesce((SELECT r.rolname FROM pg_roles r WHERE r.rolname = 'headgate_gateway'), current_user);
BEGIN
  IF cardinality(relations) NOT BETWEEN 1 AND 32 THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a token is for 1 to 32 tables';
  ELSIF seconds NOT BETWEEN 1 AND 86400 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a token FOR SELECT expires after 1 second to 1 day';
  END IF;
  -- They are good for nothing, and their names are free.
  DELETE FROM headgate.token t WHERE t.owner_oid = me AND t.expires_at < now();
  IF (SELECT count(*) >= most FROM headgate.token t WHERE t.owner_oid = me) THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = format('a role has at most %s tokens, and a superuser 10000', most);
  END IF;
  FOREACH relation IN ARRAY relations LOOP
    PERFORM headgate.refuse_token_table(me, relation, reads);
    IF NOT has_table_privilege(writer, relation, wanted) THEN
      RAISE WARNING USING MESSAGE = format('role "%s" may not %s %s', writer, CASE WHEN reads THEN 'read' ELSE 'insert into' END, relation::regclass),
        HINT = format('The events gateway %s rows as that role, unless HEADGATE_EVENTS_ROLE names another one: GRANT %s ON %s TO %I',
          CASE WHEN reads THEN 'reads' ELSE 'stores' END, wanted, relation::regclass, writer);
    END IF;
  END LOOP;
  INSERT INTO headgate.token (name, owner, owner_oid, hash, origins, rate, reads, expires_at)
  VALUES (given ->> 'name', (SELECT r.rolname FROM pg_roles r WHERE r.oid = me), me, token_hash,
    ARRAY(SELECT DISTINCT jsonb_array_elements_text(given -> 'origins')), given ->> 'rate', reads, now() + make_interval(secs => seconds))
  ON CONFLICT (name) DO NOTHING RETURNING id INTO made;
  IF made IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('token "%s" already exists', given ->> 'name');
  END IF;
  INSERT INTO headgate.token_table (token_id, relation) SELECT made, r FROM unnest(relations) AS r;
  RETURN token;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.do_drop_token(me oid, given jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  token_name text := given ->> 'name';
  owner oid;
BEGIN
  SELECT t.owner_oid INTO owner FROM headgate.token t WHERE t.name = token_name FOR UPDATE;
  IF NOT FOUND THEN
    IF (given ->> 'ifExists')::boolean THEN
      RAISE NOTICE USING ERRCODE = '42704', MESSAGE = format('token "%s" does not exist, skipping', token_name);
      RETURN;
    END IF;
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('token "%s" does not exist', token_name);
  ELSIF NOT headgate.may_use(me, owner) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for token "%s"', token_name),
      HINT = 'The role that made it may drop it, its members, and superusers.';
  END IF;
  DELETE FROM headgate.token t WHERE t.name = token_name;
END
$body$;

-- What Headgate asks for requests of the events gateway, several at a time: the token with that hash (in hex; NULL: none was sent) and the
-- tables into which its owner may insert now, or, `reading`, those that the owner of a token FOR SELECT may read now, and whether any token is for
-- pages of that origin. A token whose owner is gone, or that has expired, does not count.
CREATE OR REPLACE FUNCTION headgate.token_rights(hashes text[], page_origins text[], reading boolean DEFAULT false)
RETURNS TABLE (n bigint, id uuid, origins text[], rate text, relations oid[], origin_known boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT a.n, t.id, t.origins, t.rate,
    ARRAY(SELECT k.relation::oid FROM headgate.token_table k
      WHERE k.token_id = t.id AND t.reads = reading
        AND headgate.may_with_all(t.owner_oid, k.relation, CASE WHEN reading THEN 'SELECT' ELSE 'INSERT' END)),
    a.origin IS NOT NULL AND EXISTS (SELECT FROM headgate.token o WHERE o.origins @> ARRAY[a.origin])
  FROM ROWS FROM (unnest(hashes), unnest(page_origins)) WITH ORDINALITY AS a (hash, origin, n)
  LEFT JOIN headgate.token t ON t.hash = decode(a.hash, 'hex') AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp())
    AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = t.owner_oid)
  ORDER BY a.n
$body$;

-- `seconds`: the lifetime of a token FOR SELECT; NULL: it is one for INSERT.
CREATE OR REPLACE FUNCTION headgate.create_token(token_name text, relations regclass[], origins jsonb, rate text, seconds int DEFAULT NULL)
RETURNS TABLE ("Token" text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  CALL headgate.ask('create token', jsonb_build_object(
    'name', token_name, 'relations', to_jsonb(relations::oid[]), 'origins', origins, 'rate', rate, 'seconds', seconds));
  "Token" := current_setting('headgate.answer');
  PERFORM set_config('headgate.answer', '', true);
  RETURN NEXT;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.show_tokens()
RETURNS TABLE ("Name" text, "Owner" text, "For" text, "Tables" text, "Origins" text, "Rate" text, "Created" timestamptz, "Expires" timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT t.name, r.rolname::text, CASE WHEN t.reads THEN 'SELECT' ELSE 'INSERT' END, (
      SELECT string_agg(k.relation::text || CASE
          WHEN headgate.may_with_all(t.owner_oid, k.relation, CASE WHEN t.reads THEN 'SELECT' ELSE 'INSERT' END) THEN ''
          WHEN t.reads THEN ' (its owner may not read)' ELSE ' (its owner may not insert)' END, ', ' ORDER BY k.relation::text)
      FROM headgate.token_table k JOIN pg_class c ON c.oid = k.relation WHERE k.token_id = t.id),
    nullif(array_to_string(t.origins, ', '), ''), t.rate, date_trunc('second', t.created_at), date_trunc('second', t.expires_at)
  FROM headgate.token t LEFT JOIN pg_roles r ON r.oid = t.owner_oid
  ORDER BY t.name
$body$;
