DROP FUNCTION IF EXISTS headgate.hold_inert(text, oid, text);
