-- Only functions have changed: confirm, stays and lacks_login are made from the text that the catalog is read by (relations/owner-code.ts).
DROP PROCEDURE IF EXISTS headgate.admit_writer(oid);
DROP FUNCTION IF EXISTS headgate.hold_code(text, oid, text, oid, name, text[], text[], boolean);
