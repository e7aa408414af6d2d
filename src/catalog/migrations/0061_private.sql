-- Columns of webhook tables that no request fills.

-- `places`: as of `includes`.
CREATE TABLE headgate.webhook_private (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  places jsonb NOT NULL CHECK (headgate.are_places(places) IS TRUE)
);
ALTER TABLE headgate.webhook_private ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.webhook_private FOR SELECT USING (true);
GRANT SELECT (relation, places) ON headgate.webhook_private TO PUBLIC;
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_private
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();
