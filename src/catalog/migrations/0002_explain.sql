-- EXPLAIN VALIDATE: what Headgate has found out about the tables of one name, shown to their owner alone.
--
-- Headgate evaluates, the client's own session decides which table is meant and whether the client may ask: `explained`
-- holds, by oid, the lines of every table that this client might mean.

CREATE FUNCTION headgate.explain_validate(relation regclass, table_name text, explained jsonb)
RETURNS TABLE (step int, expression text, value text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $body$
#variable_conflict use_column
DECLARE
  lines jsonb := explained -> (relation::oid::text);
BEGIN
  PERFORM headgate.open_table(relation, table_name, false);
  IF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = explain_validate.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  ELSIF lines IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '55000',
      MESSAGE = format('table "%s" cannot be explained before the transaction that made or renamed it is committed', table_name),
      HINT = 'COMMIT first: until then no request finds the table either.';
  END IF;
  RETURN QUERY SELECT (line.place - 1)::int, line.item ->> 0, line.item ->> 1
  FROM jsonb_array_elements(lines) WITH ORDINALITY AS line (item, place) ORDER BY line.place;
END
$body$;
