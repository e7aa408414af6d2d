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
DO $body$
BEGIN
  EXECUTE (SELECT coalesce(string_agg(format('DROP ROUTINE %s;', p.oid::regprocedure), ''), 'SELECT') FROM pg_proc p
    WHERE p.pronamespace = 'headgate'::regnamespace AND p.proname = ANY (
      '{add_answers,alter_answering_table,alter_formed_secret,alter_learning_secret,alter_secret,alter_webhook_table,catalog_fingerprint,
        catalog_versions,claim_deliveries,confirm,counted,create_answering_table,create_formed_secret,create_learning_secret,create_secret,
        create_token,create_webhook_table,dedupe_window,do_alter_formed_secret,do_create_formed_secret,drop_answer,drop_secret,drop_token,
        drop_validate,forget_deliveries,forget_tombstones,hold,keep_token_owners,may_insert,may_select,open_learning,refuse_token_table,set_answers,set_validation,
        show_create_table,store_together,token_rights,trusts}'));
END
$body$;
