-- Who may call what. The last of these files.
--
-- PostgreSQL lets everybody execute a function unless told otherwise. Everybody may still call those that the SQL port calls
-- as the client's role, and those that they, the policies, the constraints and the views call; none of them can do more than
-- its caller. All others are Headgate's alone. Other privileges that somebody has granted or revoked stay as they are.
DO $body$
DECLARE
  private record;
BEGIN
  FOR private IN
    SELECT p.oid::regprocedure AS signature FROM pg_proc p
    WHERE p.pronamespace = 'headgate'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE') AND p.proname <> ALL (ARRAY[
      'add_includes', 'added', 'admit', 'alter_checks', 'alter_options', 'answer_clauses', 'are_includes', 'are_places', 'ask',
      'base_type', 'body_columns', 'choose_collect', 'choose_document', 'column_definition', 'confirm', 'create_token', 'create_webhook_table',
      'describe', 'distribute', 'distributing_column', 'distribution', 'document_option', 'drop_check', 'explain_validate', 'flush',
      'forget_ignored_keys', 'forget_rejected', 'hold_code', 'identity_options', 'is_numbered', 'is_place', 'join_schema', 'keep_empty', 'lacks_login',
      'may_bury', 'may_with_all', 'named_before', 'named_now', 'natural_distribution', 'natural_document', 'open_kept', 'open_table', 'option_window', 'own_sequence',
      'owns_table', 'path_part', 'place', 'place_includes', 'place_private', 'placed', 'placed_anew', 'private_columns', 'private_places', 'quantile', 'readers_in',
      'refuse_beside_into', 'refuse_repeated_key', 'refuse_unfilled_key', 'refuse_unreconciled', 'refuse_unversioned', 'retry_rejected', 'sees_table', 'serial_name', 'show_create_table', 'show_endpoints',
      'show_secrets', 'show_spool', 'show_tables', 'show_tokens', 'stays', 'store_values', 'takes_body', 'try_options', 'webhook_clauses'])
  LOOP
    EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', private.signature);
  END LOOP;
END
$body$;
