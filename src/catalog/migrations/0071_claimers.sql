-- Claims of deliveries stay known in a restored database, where roles have other oids (functions/deliveries.sql).

-- As whom sessions of a table's owner claim deliveries: `mark` is what headgate.delivery.claimed_by holds then. `owner` is that owner in the
-- database `place`. Not a regrole: a dump can then be restored where the role does not exist.
CREATE TABLE headgate.claimer (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  owner oid NOT NULL,
  place text NOT NULL,
  mark oid NOT NULL
);

-- The owner's oid has been the mark. Headgate names the place when it next reads the catalog. In a restored database that nobody has
-- served yet it is not known whose oids those are.
INSERT INTO headgate.claimer (relation, owner, place, mark)
SELECT w.relation, c.relowner, '', c.relowner FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation
WHERE EXISTS (SELECT FROM headgate.cluster k WHERE k.identity = headgate.cluster_identity());
