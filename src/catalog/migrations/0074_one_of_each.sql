-- One function serves both kinds of tokens, and one both kinds of what a table keeps for the window of an option.
DROP FUNCTION IF EXISTS headgate.token_rights(text[], text[]);
DROP FUNCTION IF EXISTS headgate.read_token_rights(text[], text[]);
DROP FUNCTION IF EXISTS headgate.dedupe_window(jsonb);
DROP FUNCTION IF EXISTS headgate.create_token(text, regclass[], jsonb, text);
DROP FUNCTION IF EXISTS headgate.create_read_token(text, regclass[], jsonb, text, int);
