-- Sums belong to a role by its oid: one that is renamed keeps them, and a later role of its name does not get them. Its name at the time stays
-- beside it, by which a copy of the database on another server finds it again. 0: all tables of the database.
ALTER TABLE headgate.traffic_total ADD COLUMN IF NOT EXISTS owner_oid oid;
UPDATE headgate.traffic_total t SET owner_oid = CASE t.owner WHEN '' THEN 0::oid ELSE (SELECT r.oid FROM pg_roles r WHERE r.rolname = t.owner) END;
DELETE FROM headgate.traffic_total WHERE owner_oid IS NULL;
ALTER TABLE headgate.traffic_total DROP CONSTRAINT traffic_total_pkey, ADD PRIMARY KEY (owner_oid, owner, per, slot);
