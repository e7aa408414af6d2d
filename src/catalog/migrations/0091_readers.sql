-- Who looks at the requests of a table without owning it (functions/tables.sql, sees_table). The second part is asked once for a statement.
DROP POLICY IF EXISTS seen ON headgate.rejected_requests;
CREATE POLICY seen ON headgate.rejected_requests FOR SELECT USING (
  EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = relation AND pg_catalog.pg_has_role(c.relowner, 'USAGE'))
  OR relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE w.options ? 'readers' AND headgate.sees_table(w.relation)));
