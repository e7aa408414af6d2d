-- The engine's own words about a row that it refused: for the owner of the table, whom its sender's answer tells less.
ALTER TABLE headgate.rejected_requests ADD COLUMN IF NOT EXISTS engine_error text;
GRANT SELECT (engine_error) ON headgate.rejected_requests TO PUBLIC;
