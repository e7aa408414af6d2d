-- headgate.look() asks for the versions of all tables, by functions that keep their plans (functions/reading.sql).
DROP VIEW IF EXISTS headgate.catalog_sizes;
DROP FUNCTION IF EXISTS headgate.counted();
