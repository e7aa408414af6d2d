/** What `headgate <command> --help` prints after the options: how the command behaves, and examples. */

const elsewhere = `
Without --dsn and --profile it talks to the Headgate of --data-dir, as the role of its database URL (root in the embedded
engine). A password is taken from PGPASSWORD, ~/.pgpass or HEADGATE_DATABASE_URL, or asked for. Exit status: 0 success, 1 failure, 130
interrupted.`;

export const pages: Readonly<Record<string, string>> = {
  endpoints: `
Shows for each table its URL, the secrets that its VALIDATE reads, its approximate number of rows, and how many requests of the last 24
hours were refused and kept. Without --database, --dsn and --profile: those of every database that Headgate serves.

  headgate endpoints
  headgate endpoints --dsn postgresql://ops@db.example.com/app --url https://hooks.example.com
${elsewhere}`,
  senders: `
The first column is the name for USING and for headgate init. The word is a part of a name or of another name: github, hub, facebook.

  headgate senders
  headgate senders git --json
Exit status: 0 success, 1 no sender has this word in its name.`,
  init: `
Prints the URL and the steps at the sender, asks for the secret, and creates secret and table in one transaction. Sends the sender's
handshake, if it has one, and a signed test delivery, whose row it deletes. Then it waits for the first real delivery. It does not change
an existing table.

  headgate init github
  headgate init stripe --table payments --secret-file whsec.txt
${elsewhere}`,
  tail: `
For a Headgate on this machine, with the rights of the user that runs it: every answer. A refused request that was kept has a number, for
headgate explain. If there are more than ten answers in 200 ms, refused requests come first, and the rest are only counted. --body shows
the contents of accepted requests, for tables with inspect = 'bodies'.

For one elsewhere (--dsn, --profile), with the rights of that role: rows of its tables as they are committed, and refused requests as they
are recorded (of a flood, some). --body shows them as the table keeps them. After a lost connection it reconnects and misses no row.

It begins with the last ten answers; -n and --since choose others, of the last 200. Elsewhere they choose rows by the column of INCLUDE
TIMESTAMP, and refused requests; without them it begins with the next request.

A table is named as table, schema.table or database.schema.table.

  headgate tail --failed
  headgate tail github_events -n 50 --since 10m
  headgate tail github_events --body --dsn postgresql://ops@db.example.com:4567/app
${elsewhere}`,
  listen: `
Sends each row that is committed from now on to the URL, as the request that the row was made from, one at a time, and shows the
answer. With INCLUDE BODY, METHOD, QUERY and HEADERS that is the original request; otherwise it is a POST of the document. INCLUDE HEADERS
does not keep headers that VALIDATE reads, such as the signature: include them by name, or sign anew with --sender.

If the program or Headgate is unreachable, the command waits: it skips nothing, and sends a request twice only if its answer was lost. With
--state this also holds across restarts of the command. A writing transaction that stays open delays everything after it. If a table is
rewritten (VACUUM FULL, ALTER … TYPE), its rows may be sent again.

  headgate listen --forward-to http://localhost:3000/hook
  headgate listen github_events --forward-to http://localhost:3000/hook --sender github --secret-file key.txt
${elsewhere}`,
  replay: `
Reads the table once, as it is when the command begins, and sends its requests in their physical order. A target table receives them over
HTTP like any other request, so its VALIDATE applies: sign with --sender and --secret. Stops after ten consecutive requests without an
answer.

  headgate replay github_events --since 1h --to http://localhost:3000/hook
  headgate replay orders --where "data->>'status' = 'failed'" --to orders_again --rate 200
${elsewhere}`,
  websub: `
Finds the hub that the topic names, requests a subscription, and renews it twice per lease until interrupted; if the hub refuses, it
tries again after a minute, then less often. The hub asks the table to confirm the subscription, so create the table first, with the topic
as its second secret: VALIDATE SECRET s USING websub ANSWER SECRET topic. headgate.handshakes shows what the hub asked and was answered.

  headgate websub https://blog.example/feed --callback https://hooks.example.com/webhook/dev/public/feed --secret-file key.txt
  headgate websub 'https://www.youtube.com/xml/feeds/videos.xml?channel_id=…' --hub https://pubsubhubbub.appspot.com/ \\
    --callback https://hooks.example.com/webhook/dev/public/videos --secret-file key.txt --lease '10 days'
Exit status: 0 success, 1 failure, 130 interrupted.`,
  mcp: `
For agents that speak the Model Context Protocol (docs/mcp.md). It only reads, with the rights of the role; it has the tool query unless
the role is a superuser or can become one. --allow-write adds retry, forget and create_endpoint. It neither takes nor shows secrets, and
sends no requests. Each call is logged on standard error.

  headgate mcp --dsn postgresql://agent@localhost:4567/dev
${elsewhere}`,
  explain: `
Takes the number of a refused request, its id in headgate.rejected_requests; without one, it shows the newest. You see only requests to
tables that you own or may look at (readers), without credentials.

  headgate explain
  headgate explain 42 --json
${elsewhere}`,
  export: `
Writes every row of one snapshot of the table, as JSON that keeps each digit, as CSV like COPY, or as a Parquet file. With --state each run
writes what was committed since the last one, each row once; updated rows are written again, and deleted rows are not reported. Each run
reads the whole table. With --output the file appears only once it is complete and on the disk.

  headgate export events > events.ndjson
  headgate export events --format csv --state events.position --output events.csv
  headgate export events --format parquet --output events.parquet
${elsewhere}`,
  infer: `
Reads 10,000 documents at most. Numbers become BIGINT or NUMERIC, never floating-point; a column with two types becomes TEXT or JSONB. The
primary key is a column whose name ends in id and whose value is different in every sample. Read the statement before you run it.

  headgate infer samples.ndjson --name orders
  headgate infer --table github_events
${elsewhere}`,
  sql: `
Statements end with a semicolon and may span several lines. \\d lists tables, \\d NAME shows one, \\? shows the other commands, and \\q, exit
or Ctrl-D ends. With --json numbers and booleans are JSON's, with every digit, and times ISO 8601. Lines are kept
in ~/.config/headgate/sql-history, except lines that contain a secret, a password or a key. If its input is a pipe, it runs what it reads.

  headgate sql
  headgate sql -c "SELECT count(*) FROM github_events" --json
  headgate sql -c '\\d github_events'
${elsewhere}`,
  status: `
Lists the Headgates of this user; --data-dir shows one of another user. Exit status: 0 all are ready, 1 one is not, 3 none runs.

  headgate status
  headgate status --json`,
  doctor: `
Checks settings that start would refuse, ports, the disk and how long a flush takes, the database, its clock, whether the listener and
HEADGATE_PUBLIC_URL answer as Headgate, when the certificate there expires, tables without VALIDATE, and tables that refuse everything
or need HEADGATE_PUBLIC_URL, in every database that Headgate serves. With --database, --dsn or --profile it looks at one database. Each
line begins with ok, look or WRONG; any WRONG makes the exit status 1.

  headgate doctor
  headgate doctor --profile prod --public-url https://hooks.example.com --json`,
  completions: `
  headgate completions bash > /etc/bash_completion.d/headgate
  headgate completions zsh  > "\${fpath[1]}/_headgate"
  headgate completions fish > ~/.config/fish/completions/headgate.fish`,
};
