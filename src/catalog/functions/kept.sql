-- What is kept of the requests to a table: in its own rows, and in headgate.rejected_requests.

-- Opens the cursors `headgate stored` and `headgate refused`, newest first, in the caller's transaction and with the caller's rights; each row is one
-- text, a JSON object in base64, which no client_encoding changes. Returns in the same form whose table it is, what it keeps, and which secrets of those names
-- are meant; whether the caller may use them is decided by Headgate. `secrets`: [{schema, name}]. A larger body than `bytes_max` is NULL.
CREATE OR REPLACE FUNCTION headgate.open_kept(
  relation regclass, table_name text, span text, secrets jsonb, caller_schemas name[], requests_max int, bytes_max int)
RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  made record;
  part record;
  since timestamptz := clock_timestamp() - span::interval;
  columns jsonb := '{}';
  named text[] := '{}';
  names text[] := '{}';
  identity text;
  stored refcursor := 'headgate stored';
  refused refcursor := 'headgate refused';
BEGIN
  PERFORM headgate.open_table(relation, table_name, false);
  SELECT w.options, headgate.placed(w.relation, w.document) AS document, w.includes INTO made
  FROM headgate.webhook_table w WHERE w.relation = open_kept.relation;
  -- Of other types is what the request said in another form.
  FOR part IN
    SELECT i.value ->> 'what' AS what, lower(i.value ->> 'header') AS header, format('t.%I', a.attname) AS "column"
    FROM jsonb_array_elements(made.includes) i
    JOIN pg_attribute a ON a.attrelid = relation AND a.attname = headgate.placed(relation, i.value) AND NOT a.attisdropped
    WHERE a.atttypid = ANY (CASE i.value ->> 'what' WHEN 'timestamp' THEN '{timestamptz}' WHEN 'body' THEN '{bytea}'
      WHEN 'headers' THEN '{jsonb}' ELSE '{text,varchar}' END::regtype[])
  LOOP
    IF part.what = 'header' THEN
      named := named || format('%L, %s', part.header, part.column);
      names := names || part.header;
    ELSE
      columns := columns || jsonb_build_object(part.what, part.column);
    END IF;
  END LOOP;
  IF made.options ->> 'format' = 'bytes' THEN
    columns := columns || jsonb_strip_nulls(jsonb_build_object('body', format('t.%I', made.document)));
  END IF;
  IF columns ? 'timestamp' THEN
    SELECT string_agg(format('%L || t.%I::text', a.attname || '=', a.attname), ' || '', '' || ' ORDER BY k.place) INTO identity
    FROM pg_index x, unnest(x.indkey::int[]) WITH ORDINALITY AS k (number, place), pg_attribute a
    WHERE x.indrelid = relation AND x.indisprimary AND a.attrelid = relation AND a.attnum = k.number;
    OPEN stored NO SCROLL FOR EXECUTE format($query$
      SELECT encode(convert_to(json_build_object('id', q.id, 'at', extract(epoch FROM q.at) * 1000, 'method', q.method, 'path', q.path, 'query', q.query,
        'headers', q.headers, 'named', q.named, 'body', CASE WHEN octet_length(q.body) <= $3 THEN encode(q.body, 'base64') END)::text, 'UTF8'), 'base64')
      FROM (
        SELECT %s AS id, %s AS at, %s::text AS method, %s::text AS path, %s::text AS query, %s::jsonb AS headers,
          json_build_object(%s) AS named, %s::bytea AS body
        FROM %s t WHERE %2$s >= $1 ORDER BY 2 DESC LIMIT $2
      ) AS q ORDER BY q.at DESC$query$,
      coalesce(identity, '''ctid='' || t.ctid::text'), columns ->> 'timestamp', coalesce(columns ->> 'method', 'NULL'),
      coalesce(columns ->> 'path', 'NULL'), coalesce(columns ->> 'query', 'NULL'), coalesce(columns ->> 'headers', 'NULL'),
      array_to_string(named, ', '), coalesce(columns ->> 'body', 'NULL'), relation)
    USING since, requests_max, bytes_max;
  END IF;
  OPEN refused NO SCROLL FOR
    SELECT encode(convert_to(json_build_object('id', 'r' || r.id, 'at', extract(epoch FROM r.received_at) * 1000, 'authenticated', r.authenticated,
      'method', r.method, 'target', r.target, 'headers', r.headers, 'leftOut', r.headers_left_out, 'cause', r.cause,
      'bodyBytes', r.body_bytes, 'body', encode(r.body, 'base64'))::text, 'UTF8'), 'base64')
    FROM headgate.rejected_requests r
    WHERE r.relation = open_kept.relation AND r.received_at >= since AND r.door <> 'websocket'
    ORDER BY r.received_at DESC, r.id DESC LIMIT requests_max;
  RETURN encode(convert_to(jsonb_build_object(
    'oid', relation::oid::bigint, 'me', (SELECT r.oid::bigint FROM pg_roles r WHERE r.rolname = current_user),
    'bodyName', coalesce(made.document, 'payload'), 'batched', coalesce(made.options ->> 'is_batched', 'false')::boolean,
    'keeps', (SELECT coalesce(jsonb_agg(k), '[]') FROM jsonb_object_keys(columns) k), 'named', to_jsonb(names),
    'secrets', (
      SELECT coalesce(jsonb_agg(jsonb_build_object('alias', s.it ->> 'name', 'shown', concat_ws('.', s.it ->> 'schema', s.it ->> 'name'),
        'id', f.id, 'version', f.version) ORDER BY s.place), '[]')
      FROM jsonb_array_elements(secrets) WITH ORDINALITY AS s (it, place)
      LEFT JOIN LATERAL (
        SELECT x.id, extract(epoch FROM x.altered_at)::text AS version FROM headgate.secret x
        WHERE x.name = s.it ->> 'name'
          AND CASE WHEN s.it ->> 'schema' IS NULL THEN x.schema_name = ANY (caller_schemas) ELSE x.schema_name = s.it ->> 'schema' END
        ORDER BY array_position(caller_schemas, x.schema_name::name) LIMIT 1
      ) AS f ON true)
    )::text, 'UTF8'), 'base64');
END
$body$;
