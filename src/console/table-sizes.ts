/** Parts of statements that say how large tables are, without waiting for one that is locked. Pure. */

/** Tables for whose size PostgreSQL would wait, because somebody has locked them or one of their indexes. */
export const locked = `locked AS MATERIALIZED (
  SELECT coalesce(i.indrelid, l.relation) AS oid
  FROM pg_locks l LEFT JOIN pg_index i ON i.indexrelid = l.relation
  WHERE l.locktype = 'relation'::text AND l.mode = 'AccessExclusiveLock'::text
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)`;

/** Of the relation with this oid: including its partitions, without what is locked; null: all of it is. */
export const tableBytes = (oid: string): string => `(
    WITH RECURSIVE part AS (
      SELECT ${oid} AS oid
      UNION ALL
      SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
      JOIN pg_class p ON p.oid = i.inhrelid AND p.relispartition
    )
    SELECT sum(pg_total_relation_size(part.oid::regclass)) FROM part
    WHERE NOT EXISTS (SELECT FROM locked l WHERE l.oid = part.oid)
  )`;
