-- Deleted rows of tables with the option version, by the digests of their keys. The condition is here because a view runs with the rights of its
-- owner, while current_user remains the caller; a barrier, so that nobody's function sees what it leaves out.
CREATE OR REPLACE VIEW headgate.tombstones WITH (security_barrier) AS
SELECT t.relation, t.key, t.version, t.deleted_at FROM headgate.tombstone t WHERE headgate.may_bury(t.relation)
WITH LOCAL CHECK OPTION;
-- By columns: a privilege on the whole view would allow LOCK TABLE.
GRANT SELECT (relation, key, version, deleted_at), INSERT (relation, key, version), UPDATE (version, deleted_at) ON headgate.tombstones TO PUBLIC;
