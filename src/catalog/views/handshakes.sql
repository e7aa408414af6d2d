CREATE OR REPLACE VIEW headgate.handshakes WITH (security_barrier) AS
SELECT h.id, h.asked_at, h.schema_name, h.table_name, h.method, h.remote_address, h.rule, h.status, h.outcome
FROM headgate.handshake_log h
WHERE h.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation));
GRANT SELECT (id, asked_at, schema_name, table_name, method, remote_address, rule, status, outcome)
  ON headgate.handshakes TO PUBLIC;
