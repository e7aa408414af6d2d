-- How Citus distributes the rows of a webhook table: a part of WITH that Citus keeps, not the catalog. Called as the client's own role.

-- As WITH says it; {}: an ordinary table.
CREATE OR REPLACE FUNCTION headgate.distribution(relation oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  spread record;
  by_column name;
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN '{}';
  END IF;
  SELECT p.partmethod, p.partkey, p.repmodel, p.colocationid, (
      SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = p.logicalrelid) AS shards
  INTO spread FROM pg_dist_partition p WHERE p.logicalrelid = distribution.relation;
  IF spread.partmethod = 'h' THEN
    by_column := column_to_column_name(relation::regclass, spread.partkey);
    RETURN jsonb_build_object('shards', spread.shards::text, 'distribute', CASE
      WHEN lower(by_column) IN ('off', 'single', 'reference', 'schema') OR by_column LIKE '"%"' THEN format('"%s"', by_column)
      ELSE by_column END);
  ELSIF spread.repmodel = 't' THEN
    RETURN '{"distribute": "reference"}';
  ELSIF spread.partmethod = 'n' AND spread.colocationid <> 0 THEN
    IF EXISTS (SELECT FROM pg_dist_schema d WHERE d.colocationid = spread.colocationid) THEN
      RETURN '{"distribute": "schema"}';
    END IF;
    RETURN '{"distribute": "single"}';
  END IF;
  RETURN '{}';
END
$body$;

-- The number of the column whose hash determines where a row goes; refuses what Citus, or the first request, would refuse.
CREATE OR REPLACE FUNCTION headgate.distributing_column(relation regclass, wanted name, includes jsonb, document jsonb) RETURNS smallint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  a pg_attribute;
BEGIN
  SELECT t.* INTO a FROM pg_attribute t
  WHERE t.attrelid = relation AND t.attname = wanted AND t.attnum > 0 AND NOT t.attisdropped;
  IF a.attname IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column "%s", by which rows would be distributed, does not exist', wanted);
  ELSIF a.attgenerated <> '' THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('column "%s" is generated: rows cannot be distributed by it', wanted);
  ELSIF headgate.placed(relation, document) <> wanted AND NOT a.atthasdef AND a.attidentity = ''
    AND NOT EXISTS (SELECT FROM jsonb_array_elements(includes) i WHERE headgate.placed(relation, i.value) = wanted) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('no request fills column "%s", by which rows would be distributed', wanted),
      HINT = 'Fill it with INCLUDE, or give it a DEFAULT.';
  ELSIF EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = relation AND (i.indisunique OR i.indisexclusion)
      AND a.attnum <> ALL ((i.indkey::int2[])[0:i.indnkeyatts - 1])
  ) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('column "%s" has to be part of the primary key and of every UNIQUE constraint, because rows are distributed by it', wanted),
      HINT = 'Citus looks for a key in one shard only.';
  END IF;
  RETURN a.attnum;
END
$body$;

-- Turns an ordinary table into a table of its distributed schema.
CREATE OR REPLACE PROCEDURE headgate.join_schema(relation regclass)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation);
  neighbour regclass;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_dist_schema d WHERE d.schemaid = place) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('schema %s is not distributed', place),
      HINT = format('SELECT citus_schema_distribute(%L) distributes it.', place);
  END IF;
  SELECT p.logicalrelid INTO neighbour FROM pg_dist_schema d JOIN pg_dist_partition p ON p.colocationid = d.colocationid
  WHERE d.schemaid = place LIMIT 1;
  -- Citus itself takes tables in where CREATE TABLE stands at the top of a session, which this does not.
  IF neighbour IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('schema %s is distributed and has no table that is', place),
      HINT = 'Distribute it when it has its first table, or make an ordinary table in it first.';
  END IF;
  PERFORM create_distributed_table(relation, NULL, colocate_with => neighbour::text);
END
$body$;

-- `given`: what WITH or SET says, including `distribute` and `shards`. Returns the table, which Citus may have put in the place of the former one.
CREATE OR REPLACE FUNCTION headgate.distribute(relation regclass, includes jsonb, document jsonb, given jsonb) RETURNS regclass
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  before jsonb := headgate.distribution(relation);
  way text := given ->> 'distribute';
  shards int := (given ->> 'shards')::int;
  by_column name;
  identity text;
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    IF way <> 'off' THEN
      RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'the database has no extension citus, which distributes tables',
        HINT = 'Leave distribute out, or run CREATE EXTENSION citus where the server has it.';
    END IF;
    RETURN relation;
  ELSIF way IS NULL AND shards IS NULL THEN
    RETURN relation;
  ELSIF way IS NULL AND NOT before ? 'shards' THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('table %s is not distributed by a column, and has no shards', relation),
      HINT = 'The form is: distribute = ''column'', shards = 8.';
  END IF;
  way := coalesce(way, before ->> 'distribute');
  IF way = 'off' AND before = '{}' OR before @> jsonb_build_object('distribute', way)
    AND coalesce(shards::text, before ->> 'shards') IS NOT DISTINCT FROM before ->> 'shards' THEN
    RETURN relation;
  ELSIF before <> '{}' AND NOT EXISTS (SELECT FROM pg_event_trigger e WHERE e.evtname = 'headgate_drop' AND e.evtenabled <> 'D') THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('table %s is distributed: Citus would put another one in its place', relation),
      DETAIL = 'Headgate follows where it has its event triggers, which a superuser''s Headgate makes.',
      HINT = 'Drop the table, and make it as it is to be.';
  END IF;
  IF way NOT IN ('off', 'single', 'reference', 'schema') THEN
    by_column := CASE WHEN way LIKE '"%"' THEN substr(way, 2, length(way) - 2) ELSE way END;
    PERFORM headgate.distributing_column(relation, by_column, includes, document);
  END IF;
  identity := (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = relation);
  IF by_column IS NOT NULL AND before ? 'shards' THEN
    PERFORM alter_distributed_table(relation, distribution_column => nullif(by_column, before ->> 'distribute'), shard_count => shards,
      cascade_to_colocated => CASE WHEN shards IS NOT NULL THEN false END);
    RETURN to_regclass(identity);
  ELSIF before <> '{}' THEN
    PERFORM undistribute_table(relation);
    relation := to_regclass(identity);
  END IF;
  IF by_column IS NOT NULL THEN
    -- A group of rows is stored in as many statements as it meets shards; some more than nodes leave room to move them.
    shards := coalesce(shards, (SELECT greatest(1, least(16, 2 * count(*))) FROM pg_dist_node n
      WHERE n.shouldhaveshards AND n.isactive AND n.noderole = 'primary'));
    PERFORM create_distributed_table(relation, by_column, shard_count => shards);
  ELSIF way = 'reference' THEN
    PERFORM create_reference_table(relation);
  ELSIF way = 'single' THEN
    PERFORM create_distributed_table(relation, NULL, colocate_with => 'none');
  ELSIF way = 'schema' THEN
    CALL headgate.join_schema(relation);
  END IF;
  RETURN relation;
END
$body$;

-- How a new table is distributed by default: with its schema, if that is distributed.
CREATE OR REPLACE FUNCTION headgate.natural_distribution(relation regclass) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF to_regclass('pg_catalog.pg_dist_schema') IS NULL THEN
    RETURN '{}';
  END IF;
  RETURN CASE WHEN EXISTS (
    SELECT FROM pg_dist_schema d JOIN pg_class c ON c.relnamespace = d.schemaid WHERE c.oid = relation
  ) THEN '{"distribute": "schema"}' ELSE '{}' END;
END
$body$;
