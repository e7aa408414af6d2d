-- Each table has a version of its own (functions/reading.sql).
DROP FUNCTION IF EXISTS headgate.checked_fingerprint();
DROP FUNCTION IF EXISTS headgate.table_fingerprint();
