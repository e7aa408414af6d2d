-- What is left of version 118: statements of src/reconcile, which are no functions any more.
DROP FUNCTION IF EXISTS headgate.leave_unread(oid, timestamptz, timestamptz), headgate.note_asked(oid, uuid, int, uuid[], timestamptz),
  headgate.note_failed(oid, jsonb);
