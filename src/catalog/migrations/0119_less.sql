-- What is left of version 118: what is no function any more, or part of another one.
DROP FUNCTION IF EXISTS headgate.leave_unread(oid, timestamptz, timestamptz), headgate.note_asked(oid, uuid, int, uuid[], timestamptz),
  headgate.note_failed(oid, jsonb), headgate.do_includes(oid, oid, jsonb), headgate.do_forget(oid, bigint), headgate.do_forget_ignored(oid, oid),
  headgate.warn(oid, jsonb), headgate.refuse_no_reader(text);
DROP PROCEDURE IF EXISTS headgate.try_condition(regclass, text);
