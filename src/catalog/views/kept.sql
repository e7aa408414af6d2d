CREATE OR REPLACE VIEW headgate.kept WITH (security_barrier) AS
SELECT k.id, k.schema_name, k.table_name, k.keep, k.began_at, k.ended_at, k.rows, k.older_than, k.reason
FROM headgate.keep_log k
WHERE k.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation));
GRANT SELECT (id, schema_name, table_name, keep, began_at, ended_at, rows, older_than, reason) ON headgate.kept TO PUBLIC;
