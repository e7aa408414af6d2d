-- Rows of a table for which a connection keeps no statement are stored by the same statement, parsed for them.
DROP FUNCTION IF EXISTS headgate.store_together(text[], text[], oid[], text[], oid[], int4[], jsonb[]);
