-- How many requests came to each table, minute by minute, for a day; and SHOW ENDPOINTS.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

-- A row for each minute of a day that had a request, whose place the next day takes: it never grows beyond that. Headgate
-- alone writes it. HOT updates want room in the page.
CREATE TABLE headgate.traffic_minute (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 1439),
  minute timestamptz NOT NULL,
  stored bigint NOT NULL,
  unauthorized bigint NOT NULL,
  refused bigint NOT NULL,
  unavailable bigint NOT NULL,
  rows bigint NOT NULL,
  -- By duration: up to 1 ms, 2, 5, 10 … 10 s, and beyond.
  took int[] NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (relation, slot)
) WITH (fillfactor = 60);
REVOKE ALL ON headgate.traffic_minute FROM PUBLIC;

CREATE FUNCTION headgate.added(one int[], other int[]) RETURNS int[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT array_agg(coalesce(u.a, 0) + coalesce(u.b, 0) ORDER BY u.place)
  FROM unnest(one, other) WITH ORDINALITY AS u (a, b, place)
$body$;

-- The bound, in ms, under which this part of the requests of a duration is; infinity: beyond 10 s; NULL: there was none.
CREATE FUNCTION headgate.quantile(took bigint[], part float8) RETURNS float8
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT min(c.bound) FROM (
    SELECT b.bound, sum(t.count) OVER (ORDER BY t.place) AS up_to, sum(t.count) OVER () AS total
    FROM unnest(took) WITH ORDINALITY AS t (count, place)
    JOIN unnest('{1,2,5,10,20,50,100,200,500,1000,2000,5000,10000,infinity}'::float8[]) WITH ORDINALITY AS b (bound, place)
      ON b.place = t.place
  ) AS c WHERE c.total > 0 AND c.up_to >= part * c.total
$body$;

-- The conditions stand here because a view runs with the rights of its owner, while current_user stays who asks.
CREATE VIEW headgate.traffic WITH (security_barrier) AS
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, m.minute,
  m.stored, m.unauthorized, m.refused, m.unavailable, m.rows,
  headgate.quantile(m.took::bigint[], 0.5) AS p50_ms, headgate.quantile(m.took::bigint[], 0.99) AS p99_ms, m.last_at
FROM headgate.traffic_minute m
JOIN pg_class c ON c.oid = m.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE m.minute > now() - interval '24 hours'
  AND m.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.owns_table(w.relation));

-- Each webhook table with what came to it in the last 24 hours. When something came last is remembered longer.
CREATE VIEW headgate.endpoints WITH (security_barrier) AS
SELECT c.oid AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name, w.expression IS NOT NULL AS checked,
  (SELECT max(m.last_at) FROM headgate.traffic_minute m WHERE m.relation = w.relation) AS last_at,
  coalesce(t.stored, 0)::bigint AS stored, coalesce(t.unauthorized, 0)::bigint AS unauthorized,
  coalesce(t.refused, 0)::bigint AS refused, coalesce(t.unavailable, 0)::bigint AS unavailable,
  headgate.quantile(t.took, 0.99) AS p99_ms
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT sum(m.stored) AS stored, sum(m.unauthorized) AS unauthorized, sum(m.refused) AS refused, sum(m.unavailable) AS unavailable,
    ARRAY[sum(m.took[1]), sum(m.took[2]), sum(m.took[3]), sum(m.took[4]), sum(m.took[5]), sum(m.took[6]), sum(m.took[7]), sum(m.took[8]), sum(m.took[9]), sum(m.took[10]), sum(m.took[11]), sum(m.took[12]), sum(m.took[13]), sum(m.took[14])] AS took
  FROM headgate.traffic_minute m WHERE m.relation = w.relation AND m.minute > now() - interval '24 hours'
) AS t
WHERE headgate.owns_table(w.relation);

-- By columns: a privilege on the whole would allow LOCK TABLE.
GRANT SELECT (schema_name, table_name, minute, stored, unauthorized, refused, unavailable, rows, p50_ms, p99_ms, last_at)
  ON headgate.traffic TO PUBLIC;
GRANT SELECT (relation, schema_name, table_name, checked, last_at, stored, unauthorized, refused, unavailable, p99_ms)
  ON headgate.endpoints TO PUBLIC;

---------------------------------------------------------------- SHOW ENDPOINTS

-- As a part of a path: everything but letters, digits and -._~ in hexadecimal.
CREATE FUNCTION headgate.path_part(name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT string_agg(CASE WHEN b.char ~ '^[A-Za-z0-9_.~-]$' THEN b.char
    ELSE regexp_replace(upper(encode(convert_to(b.char, 'UTF8'), 'hex')), '(..)', '%\1', 'g') END, '' ORDER BY b.place)
  FROM regexp_split_to_table(name, '') WITH ORDINALITY AS b (char, place)
$body$;

-- `state`: {base: what stands before /webhook, or null; tables: {oid: {sender, check}}}, as the Headgate that was asked knows
-- it. The owner of a table sees it.
CREATE FUNCTION headgate.show_endpoints(state jsonb)
RETURNS TABLE ("Name" text, "Schema" text, "URL" text, "Sender" text, "Check" text, "Last Request" timestamptz,
  "Stored" bigint, "Unauthorized" bigint, "Refused" bigint, "Unavailable" bigint, "P99 ms" float8)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT e.table_name, e.schema_name, state ->> 'base' || format('/webhook/%s/%s/%s', headgate.path_part(current_database()),
      headgate.path_part(e.schema_name), headgate.path_part(e.table_name)),
    known ->> 'sender', coalesce(known ->> 'check', CASE WHEN e.checked THEN 'expression' ELSE 'none' END),
    e.last_at, e.stored, e.unauthorized, e.refused, e.unavailable, e.p99_ms
  FROM headgate.endpoints e
  CROSS JOIN LATERAL (SELECT state -> 'tables' -> e.relation::text) AS s (known)
  ORDER BY 2, 1
$body$;
