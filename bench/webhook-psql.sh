#!/bin/sh
# The command that Debian's `webhook` runs for each request: one psql, one INSERT. BODY holds the body; PGHOST … name the engine.
exec psql -X -q -v ON_ERROR_STOP=1 -v body="$BODY" <<'SQL'
INSERT INTO webhook_psql (data) VALUES (:'body');
SQL
