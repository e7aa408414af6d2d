-- What the roles that may use such secrets can see of them.
CREATE OR REPLACE VIEW headgate.learned_secrets WITH (security_barrier) AS
SELECT s.schema_name, s.name, l.until, l.learned_at, l.learned_from, l.contested_at, l.contested_from, l.revealed_at
FROM headgate.secret_learning l JOIN headgate.secret s ON s.id = l.secret_id
WHERE s.owner_oid IS NOT NULL AND pg_has_role(s.owner_oid, 'USAGE');
GRANT SELECT (schema_name, name, until, learned_at, learned_from, contested_at, contested_from, revealed_at)
  ON headgate.learned_secrets TO PUBLIC;
