-- How many requests came to each table, and how long they took; SHOW ENDPOINTS.

CREATE OR REPLACE FUNCTION headgate.added(one int[], other int[]) RETURNS int[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT array_agg(coalesce(u.a, 0) + coalesce(u.b, 0) ORDER BY u.place)
  FROM unnest(one, other) WITH ORDINALITY AS u (a, b, place)
$body$;

-- The bound, in ms, that this part of the requests took at most; infinity: more than 10 s; NULL: there were no requests.
CREATE OR REPLACE FUNCTION headgate.quantile(took bigint[], part float8) RETURNS float8
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT min(c.bound) FROM (
    SELECT b.bound, sum(t.count) OVER (ORDER BY t.place) AS up_to, sum(t.count) OVER () AS total
    FROM unnest(took) WITH ORDINALITY AS t (count, place)
    JOIN unnest('{1,2,5,10,20,50,100,200,500,1000,2000,5000,10000,infinity}'::float8[]) WITH ORDINALITY AS b (bound, place)
      ON b.place = t.place
  ) AS c WHERE c.total > 0 AND c.up_to >= part * c.total
$body$;

-- As part of a path: everything but letters, digits and -._~ in hexadecimal.
CREATE OR REPLACE FUNCTION headgate.path_part(name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT string_agg(CASE WHEN b.char ~ '^[A-Za-z0-9_.~-]$' THEN b.char
    ELSE regexp_replace(upper(encode(convert_to(b.char, 'UTF8'), 'hex')), '(..)', E'%\\1', 'g') END, '' ORDER BY b.place)
  FROM regexp_split_to_table(name, '') WITH ORDINALITY AS b (char, place)
$body$;

-- `state`: {base: the part before /webhook, or null; tables: {oid: {sender, check}}}, as known to the Headgate that was
-- asked. Shown to the owner of a table.
CREATE OR REPLACE FUNCTION headgate.show_endpoints(state jsonb)
RETURNS TABLE ("Name" text, "Schema" text, "URL" text, "Sender" text, "Check" text, "Last Request" timestamptz,
  "Stored" bigint, "Unauthorized" bigint, "Refused" bigint, "Unavailable" bigint, "P99 ms" float8, "Stale" bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT e.table_name, e.schema_name, state ->> 'base' || format('/webhook/%s/%s/%s', headgate.path_part(current_database()),
      headgate.path_part(e.schema_name), headgate.path_part(e.table_name)),
    known ->> 'sender', coalesce(known ->> 'check', CASE WHEN e.checked THEN 'expression' ELSE 'none' END),
    e.last_at, e.stored, e.unauthorized, e.refused, e.unavailable, e.p99_ms, e.stale
  FROM headgate.endpoints e
  CROSS JOIN LATERAL (SELECT state -> 'tables' -> e.relation::text) AS s (known)
  ORDER BY 2, 1
$body$;
