#!/bin/sh
# What Debian's `webhook` runs for each request: one psql, one INSERT. The body comes in BODY, the engine in PGHOST ….
exec psql -X -q -v ON_ERROR_STOP=1 -v body="$BODY" <<'SQL'
INSERT INTO webhook_psql (data) VALUES (:'body');
SQL
