-- Every check is sealed as Headgate has judged it, and Headgate asks what has changed whether or not it may make event triggers.
DROP TABLE IF EXISTS headgate.capability;
DO $body$
BEGIN
  -- Without a lock if there is nothing to do.
  IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'headgate.webhook_table'::regclass AND a.attname = 'seal_form') THEN
    ALTER TABLE headgate.webhook_table DROP COLUMN seal_form;
  END IF;
END
$body$;

-- What earlier versions have left. The view is made again.
DROP VIEW IF EXISTS headgate.catalog_sizes;
DROP ROUTINE IF EXISTS
  headgate.catalog_fingerprint(), headgate.catalog_versions(), headgate.claim_deliveries(oid, uuid[], bigint), headgate.confirm(text, oid, text),
  headgate.counted(), headgate.create_token(text, regclass[], jsonb, text), headgate.dedupe_window(jsonb), headgate.hold(text, oid, oid),
  headgate.refuse_token_table(oid, oid), headgate.store_together(text[], text[], oid[], text[], oid[], integer[], jsonb[]),
  headgate.token_rights(text[], text[]), headgate.trusts(oid);
