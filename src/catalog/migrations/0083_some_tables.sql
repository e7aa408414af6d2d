-- headgate.counted_tables() can count some tables only.
DROP VIEW IF EXISTS headgate.catalog_sizes;
DROP FUNCTION IF EXISTS headgate.counted_tables();
