-- WITH (into = …): webhook tables whose rows go to another server, and that stay empty here. Called as the client's own role.

-- Refuses what the other server decides, and what needs the rows here. `options`: as WITH says them.
CREATE OR REPLACE FUNCTION headgate.refuse_beside_into(relation regclass, options jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  refused text;
BEGIN
  SELECT o.key INTO refused FROM jsonb_each_text(options) o
  WHERE o.key IN ('dedupe', 'dedupe_window', 'dedupe_compare', 'version', 'version_equal', 'version_window', 'keep', 'distribute', 'shards', 'reconcile')
    OR (o.key, o.value) IN (('on_type_error', 'null'), ('webhook.wait_for_persistence', 'false'))
  ORDER BY o.key LIMIT 1;
  IF refused IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('%s is not supported for a table whose rows go elsewhere', CASE refused
        WHEN 'on_type_error' THEN 'on_type_error = ''null''' WHEN 'webhook.wait_for_persistence' THEN 'webhook.wait_for_persistence = false'
        ELSE refused END),
      HINT = CASE WHEN refused LIKE 'dedupe%' THEN 'Give the table there a primary key: a delivery that is repeated then replaces its row.'
        ELSE 'What is done with rows is said where they are.' END;
  END IF;
END
$body$;

-- The other table has the keys, the defaults and the constraints; this one says which columns are filled.
CREATE OR REPLACE PROCEDURE headgate.keep_empty(relation regclass, target text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  refused text;
BEGIN
  IF (SELECT c.relkind <> 'r' OR c.relpersistence <> 'p' FROM pg_class c WHERE c.oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a table whose rows go elsewhere is neither partitioned nor UNLOGGED';
  END IF;
  SELECT a.attname INTO refused FROM pg_attribute a
  WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND (a.atthasdef OR a.attnotnull OR a.attidentity <> '')
  ORDER BY a.attnum LIMIT 1;
  IF refused IS NOT NULL OR EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = 'the columns of a table whose rows go elsewhere have neither keys nor defaults nor constraints',
      HINT = 'Give them to the table that the rows go into.';
  END IF;
  SELECT a.attname INTO refused FROM pg_attribute a
  WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND headgate.base_type(a.atttypid) = 'json'::regtype LIMIT 1;
  IF refused IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('column "%s" is of type JSON, which RisingWave does not have', refused),
      HINT = 'Use JSONB.';
  END IF;
  EXECUTE format('ALTER TABLE %s ADD CONSTRAINT rows_are_elsewhere CHECK (false)', relation);
  RAISE NOTICE USING MESSAGE = format('table %s stays empty here: its rows go into the table of that name behind %s', relation, target);
END
$body$;
