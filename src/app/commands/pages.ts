/** What `headgate <command> --help` says behind its options: how it behaves, and examples. */

const elsewhere = `
Without --dsn and --profile it speaks to the Headgate of --data-dir, as root. Exit status: 0 done, 1 not, 130 interrupted.`;

export const pages: Readonly<Record<string, string>> = {
  endpoints: `
Shows for each table its URL, the secrets that its VALIDATE reads, about how many rows it has, and how many requests of the last 24
hours were refused and kept.

  headgate endpoints
  headgate endpoints --dsn postgresql://ops@db.example.com/app --url https://hooks.example.com
${elsewhere}`,
  init: `
Makes a secret and a table in one transaction, asks what the sender asks before it delivers, sends one delivery signed as the sender
signs, and says what is left to do at the sender. A table that is there already is left alone.

  headgate init github
  headgate init stripe --table payments --secret-file whsec.txt
${elsewhere}`,
  tail: `
Of a Headgate on this machine, with the rights of whoever runs it: every answer as it is given, refused ones first where there are more than ten in
200 ms, and of the others their number. --body shows what accepted requests held, of tables with inspect = 'bodies'.

Of one elsewhere (--dsn, --profile), with the rights of that role: rows of its tables as they are committed, and refused requests as they are
written down, which of many are some. --body shows them as the table keeps them. What breaks is waited for, and no row is left out meanwhile.

A table is named as table, schema.table or database.schema.table.

  headgate tail --failed
  headgate tail github_events --body --dsn postgresql://ops@db.example.com:4567/app
${elsewhere}`,
  listen: `
Each row that is committed from now on is sent to the URL as the request that it was made of, one after the other, and the answer is
shown. With INCLUDE BODY, METHOD, QUERY and HEADERS it is the request as it came; otherwise a POST of the document. Headers that
VALIDATE reads are not kept by INCLUDE HEADERS: include them by name, or let --sender sign anew.

What does not answer is waited for, and so is Headgate: nothing is left out, and only a request whose answer was lost is sent twice. With
--state that holds for a restart of this command as well. A transaction that writes and stays open holds everything behind it up. Of a table that is
rewritten (VACUUM FULL, ALTER … TYPE) rows may be sent again.

  headgate listen --forward-to http://localhost:3000/hook
  headgate listen github_events --forward-to http://localhost:3000/hook --sender github --secret-file key.txt
${elsewhere}`,
  replay: `
Reads the table once, as it is when the command begins, and sends what it finds in the order in which it lies there. A target that is a table gets it over
HTTP like any other request, so that its VALIDATE is asked: --sender and --secret sign. Stops after ten requests without an answer.

  headgate replay github_events --since 1h --to http://localhost:3000/hook
  headgate replay orders --where "data->>'status' = 'failed'" --to orders_again --rate 200
${elsewhere}`,
  websub: `
Finds the hub that the topic names, asks it for a subscription, and asks again twice in a lease until it is interrupted; a hub that
refuses is asked again after a minute, then less often. The hub asks the table whether that is meant, so the table is made first, with the topic as its second
secret: VALIDATE SECRET s USING websub ANSWER SECRET topic. What the hub asked and was answered is in headgate.handshakes.

  headgate websub https://blog.example/feed --callback https://hooks.example.com/webhook/dev/public/feed --secret-file key.txt
  headgate websub 'https://www.youtube.com/xml/feeds/videos.xml?channel_id=…' --hub https://pubsubhubbub.appspot.com/ \\
    --callback https://hooks.example.com/webhook/dev/public/videos --secret-file key.txt --lease '10 days'
Exit status: 0 done, 1 not, 130 interrupted.`,
  explain: `
Takes the number of a row of headgate.rejected_requests; without one, the newest. Only requests to tables that are yours are seen, and
credentials were left out when the request was kept.

  headgate explain
  headgate explain 42 --json
${elsewhere}`,
  export: `
Every row of one picture of the table, in JSON that keeps each digit, in CSV as COPY writes it, or as a Parquet file. With --state each run writes what
was committed since the last one, each row once; rows that were updated are written again, and rows that were deleted are not told. The
table is read from end to end each time. With --output the file is there when it is complete and on the disk, and not before.

  headgate export events > events.ndjson
  headgate export events --format csv --state events.position --output events.csv
  headgate export events --format parquet --output events.parquet
${elsewhere}`,
  infer: `
Looks at 10,000 documents at most. Numbers become BIGINT or NUMERIC, never a floating one; what has two types becomes TEXT or JSONB. The key
is a column whose name ends in id, and of which every sample has a value of its own. Read the statement before you run it.

  headgate infer samples.ndjson --name orders
  headgate infer --table github_events
${elsewhere}`,
  sql: `
Statements end with a semicolon and may have several lines. \\d lists tables, \\d NAME shows one, \\? the rest. Lines are kept in
~/.config/headgate/sql-history, but none with a secret, a password or a key in it. From a pipe it runs what it reads.

  headgate sql
  headgate sql -c "SELECT count(*) FROM github_events" --json
${elsewhere}`,
  doctor: `
Settings that start would refuse, ports, the disk and how long a flush takes, the database, its clock, whether the listener and HEADGATE_PUBLIC_URL answer as
Headgate, how long the certificate there lasts, tables without VALIDATE, and tables that refuse everything. Each line begins with ok,
look or WRONG; one WRONG makes the exit status 1.

  headgate doctor
  headgate doctor --profile prod --public-url https://hooks.example.com --json`,
  completions: `
  headgate completions bash > /etc/bash_completion.d/headgate
  headgate completions zsh  > "\${fpath[1]}/_headgate"
  headgate completions fish > ~/.config/fish/completions/headgate.fish`,
};
