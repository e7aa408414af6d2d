-- Deleted rows of tables with the option version, by the digests of their keys.
CREATE OR REPLACE VIEW headgate.tombstones WITH (security_barrier) AS
SELECT t.relation, t.key, t.version, t.deleted_at FROM headgate.tombstone t WHERE headgate.may_bury(t.relation)
WITH LOCAL CHECK OPTION;
GRANT SELECT (relation, key, version, deleted_at), INSERT (relation, key, version), UPDATE (version, deleted_at) ON headgate.tombstones TO PUBLIC;
