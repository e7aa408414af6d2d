-- headgate.table_versions() reads the versions of all tables or of some (functions/reading.sql).
DROP FUNCTION IF EXISTS headgate.catalog_fingerprint();
DROP FUNCTION IF EXISTS headgate.catalog_versions();
