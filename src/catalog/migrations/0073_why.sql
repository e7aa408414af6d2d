-- Why a request was refused, for programs (kind, header, age, limit), whose it was by its table's check, and what its event is called.
ALTER TABLE headgate.rejected_requests ADD COLUMN IF NOT EXISTS cause jsonb, ADD COLUMN IF NOT EXISTS sender text, ADD COLUMN IF NOT EXISTS event text;
GRANT SELECT (cause, sender, event) ON headgate.rejected_requests TO PUBLIC;

-- The console's list is in the order of arrival, and a page of it begins after the last one.
CREATE INDEX IF NOT EXISTS rejected_requests_received ON headgate.rejected_requests (received_at, id);
CREATE INDEX IF NOT EXISTS handshake_log_asked ON headgate.handshake_log (asked_at, id);

-- Asked for each row that is looked at: there may be ten thousand webhook tables, and a page has a hundred rows.
DROP POLICY IF EXISTS seen ON headgate.rejected_requests;
CREATE POLICY seen ON headgate.rejected_requests FOR SELECT USING (
  EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = relation AND pg_catalog.pg_has_role(c.relowner, 'USAGE')));
