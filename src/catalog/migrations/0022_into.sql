-- Webhook tables whose rows go to another server.

-- The secret holds the connection string.
CREATE TABLE headgate.webhook_into (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  secret_id uuid NOT NULL REFERENCES headgate.secret
);
CREATE INDEX webhook_into_secret_id ON headgate.webhook_into (secret_id);
ALTER TABLE headgate.webhook_into ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.webhook_into FOR SELECT USING (true);
GRANT SELECT (relation, secret_id) ON headgate.webhook_into TO PUBLIC;
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_into
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();
