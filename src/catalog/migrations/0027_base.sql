-- The catalog of one database: which tables are webhook tables, how their requests are checked, the sealed secrets, and what is kept of requests.
--
-- Each numbered file is run once, behind functions/tables.sql and actions.sql, and in front of all other functions and of the views, which always
-- are those of the newest version (migrate.ts). What a file needs of functions is therefore in those two. On PostgreSQL 14 to 18.

GRANT USAGE ON SCHEMA headgate TO PUBLIC;

---------------------------------------------------------------- webhook tables and secrets

-- A role's oid says whose a secret is, and its name which role that is where a dump is restored. NULL: the role is gone,
-- and the secret is left to superusers; a new role of that name does not inherit it.
CREATE TABLE headgate.secret (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  schema_name text NOT NULL,
  name text NOT NULL,
  owner name,
  owner_oid oid,
  backend text NOT NULL,
  seal_id uuid NOT NULL,
  sealed text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  altered_at timestamptz,
  UNIQUE (schema_name, name),
  CONSTRAINT secret_bounds CHECK (
    octet_length(schema_name) <= 63 AND octet_length(name) <= 63 AND octet_length(backend) <= 63 AND octet_length(sealed) <= 131072)
);
CREATE INDEX secret_owner_oid ON headgate.secret (owner_oid);

-- Of which forms a secret's value is, as senders ask for one (whsec_ and base64, hexadecimal digits …). It is a hint at
-- the value, and Headgate's alone. A secret without a row was made before this was kept.
CREATE TABLE headgate.secret_form (
  secret_id uuid PRIMARY KEY REFERENCES headgate.secret ON DELETE CASCADE,
  forms text[] NOT NULL CHECK (pg_column_size(forms) <= 8192)
);

-- Secrets that the sender brings: they have no value until the first request of its handshake, in a window that their owner opens.
-- A secret without a row was given its value. Headgate alone writes it.
CREATE TABLE headgate.secret_learning (
  secret_id uuid PRIMARY KEY REFERENCES headgate.secret ON DELETE CASCADE,
  -- The seal of the empty value: who has read it may bring the first one.
  opened_seal uuid NOT NULL UNIQUE,
  until timestamptz NOT NULL,
  learned_at timestamptz,
  learned_from text,
  -- Another value came while the window was open.
  contested_at timestamptz,
  contested_from text,
  revealed_at timestamptz
);

-- regclass survives dump and restore (it is dumped as a name) and pg_upgrade (which keeps oids).
CREATE TABLE headgate.webhook_table (
  relation regclass PRIMARY KEY,
  -- The name of the request's body inside the expression.
  payload text NOT NULL,
  options jsonb NOT NULL CHECK (jsonb_typeof(options) = 'object'),
  -- The column that takes the whole document, as headgate.place() writes it; null: the document's keys fill the columns.
  document jsonb CHECK (document IS NULL OR headgate.is_place(document) IS TRUE),
  -- Columns that are filled from the request, in order: places with `what` (header, headers, timestamp) and `header`.
  includes jsonb NOT NULL CHECK (headgate.are_includes(includes) IS TRUE),
  -- With secret literals masked; null: the table has no VALIDATE.
  expression text,
  -- The expression as Headgate has compiled and judged it, sealed: nothing else is believed.
  sealed_expression text,
  seal_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- The column that takes the members whose keys are no columns, as headgate.place() writes it; null: none does.
  collect jsonb CHECK (collect IS NULL OR headgate.is_place(collect) IS TRUE),
  CHECK ((sealed_expression IS NULL) = (seal_id IS NULL)),
  CHECK (sealed_expression IS NULL OR expression IS NOT NULL),
  CONSTRAINT webhook_table_bounds CHECK (
    octet_length(payload) <= 63 AND octet_length(options::text) <= 4096 AND octet_length(document::text) <= 4096
    AND octet_length(includes::text) <= 262144 AND octet_length(expression) <= 262144 AND octet_length(sealed_expression) <= 1048576)
);

CREATE TABLE headgate.webhook_table_secret (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  position int NOT NULL,
  alias text NOT NULL,
  secret_id uuid NOT NULL REFERENCES headgate.secret,
  PRIMARY KEY (relation, position),
  UNIQUE (relation, alias),
  CONSTRAINT webhook_table_secret_bounds CHECK (position BETWEEN 1 AND 64 AND octet_length(alias) <= 63)
);
CREATE INDEX webhook_table_secret_secret_id ON headgate.webhook_table_secret (secret_id);

-- Tables whose rows go to another server: the secret holds the connection string.
CREATE TABLE headgate.webhook_into (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  secret_id uuid NOT NULL REFERENCES headgate.secret
);
CREATE INDEX webhook_into_secret_id ON headgate.webhook_into (secret_id);

-- The ANSWER clauses of a table, in the order of `position`. What is believed stands sealed, as it does for VALIDATE.
CREATE TABLE headgate.webhook_answer (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  position int NOT NULL,
  -- Tried before VALIDATE.
  unchecked boolean NOT NULL,
  -- It has no WHEN.
  committed boolean NOT NULL,
  -- What follows ANSWER and its secrets, with secret literals masked.
  expression text NOT NULL,
  sealed text NOT NULL,
  seal_id uuid NOT NULL UNIQUE,
  PRIMARY KEY (relation, position)
);

-- Each clause has secrets of its own, also where they are those of VALIDATE: that may get others.
CREATE TABLE headgate.webhook_answer_secret (
  relation regclass NOT NULL,
  answer int NOT NULL,
  position int NOT NULL,
  alias text NOT NULL,
  secret_id uuid NOT NULL REFERENCES headgate.secret,
  PRIMARY KEY (relation, answer, position),
  UNIQUE (relation, answer, alias),
  FOREIGN KEY (relation, answer) REFERENCES headgate.webhook_answer ON DELETE CASCADE
);
CREATE INDEX webhook_answer_secret_secret_id ON headgate.webhook_answer_secret (secret_id);

-- CREATE TOKEN: who holds one may insert events into some tables, and nothing else. Only its SHA-256 is here: it has 256 random bits, so nobody finds
-- it by trying. The owner is kept as of a secret.
CREATE TABLE headgate.token (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL UNIQUE CHECK (octet_length(name) <= 63),
  owner name,
  owner_oid oid,
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  -- Of which pages it may come; empty: of those that may call the gateway anyway.
  origins text[] NOT NULL CHECK (
    cardinality(origins) <= 16 AND octet_length(array_to_string(origins, '')) <= 4096
    AND array_to_string(origins, ' ') ~ '^(https?://[^/*@[:space:]]+( |$))*$'),
  -- As kit/rate.ts reads it; NULL: any.
  rate text CHECK (octet_length(rate) <= 63),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX token_owner_oid ON headgate.token (owner_oid);
CREATE INDEX token_origins ON headgate.token USING gin (origins);

CREATE TABLE headgate.token_table (
  token_id uuid NOT NULL REFERENCES headgate.token ON DELETE CASCADE,
  relation regclass NOT NULL,
  PRIMARY KEY (token_id, relation)
);
CREATE INDEX token_table_relation ON headgate.token_table (relation);

---------------------------------------------------------------- what is kept of requests

-- Requests that were refused, kept for the owners of the tables they were for. Headgate alone writes rows; whoever owns a table sees those of his
-- table, may delete them, and may ask for a retry.
CREATE TABLE headgate.rejected_requests (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  received_at timestamptz NOT NULL,
  -- A dropped table takes them with it: nobody would be left who may see them. NULL: the table was gone when its request was handed over by a
  -- spool. Superusers see it.
  relation regclass REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  door text NOT NULL CHECK (door IN ('http', 'websocket', 'spool')),
  status int NOT NULL,
  code text NOT NULL,
  reason text NOT NULL,
  -- VALIDATE had accepted it, or the table has none: it was refused for something else.
  authenticated boolean NOT NULL,
  remote_address text NOT NULL,
  method text NOT NULL,
  -- Path and query, the query's values left out.
  target text NOT NULL,
  -- By lower-case name, without those that may hold a credential, which are named beside.
  headers jsonb NOT NULL,
  headers_left_out text[] NOT NULL,
  -- As the sender sent it, after decompression, up to 64 KiB; NULL: it was not read.
  body bytea,
  body_bytes bigint,
  retry_asked_at timestamptz,
  retry_forced boolean NOT NULL DEFAULT false,
  retried_at timestamptz,
  -- waiting, running, committed, unknown, or the code of the refusal.
  retry_outcome text,
  retry_reason text,
  -- By lower-case name, of headers that are not kept: how long they were and how they began, where that tells nothing.
  headers_masked jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX rejected_requests_relation_id ON headgate.rejected_requests (relation, id);
CREATE INDEX rejected_requests_waiting ON headgate.rejected_requests (id) WHERE retry_outcome = 'waiting';

-- Documents that were stored without some of their members, because these are no columns: a row for each table, and the
-- first names. Headgate alone writes it; the owner of a table sees its row.
CREATE TABLE headgate.ignored_keys (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  documents bigint NOT NULL,
  keys text[] NOT NULL,
  first_at timestamptz NOT NULL DEFAULT now(),
  last_at timestamptz NOT NULL DEFAULT now()
);

-- Questions of senders, and what they were answered: nothing that a stranger has sent is in it but an address. Headgate
-- alone writes it, and keeps the newest.
CREATE TABLE headgate.handshake_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  asked_at timestamptz NOT NULL,
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  method text NOT NULL,
  remote_address text NOT NULL,
  -- The place of the ANSWER, from 1; NULL: none matched.
  rule int,
  status int NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('answered', 'unmatched', 'too_many'))
);
CREATE INDEX handshake_log_relation_id ON headgate.handshake_log (relation, id);

-- Of each spool and table the last request whose rows are here. Written in the transaction that stores them, so that it is
-- never anything else: whatever is believed elsewhere of how far a spool has come is compared with this.
CREATE TABLE headgate.spool_position (
  spool uuid NOT NULL,
  relation oid NOT NULL,
  position bigint NOT NULL CHECK (position > 0),
  moved_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (spool, relation)
);

-- Deliveries that a table has stored, for those that store each of them once (the option dedupe). Headgate alone reads and writes it. `id` is a digest,
-- so that no id of a sender's is larger than another. Without a reference to the table: that would cost every row a lock, and ids of a table that is
-- gone are forgotten with those that are too old.
CREATE TABLE headgate.delivery (
  relation regclass NOT NULL,
  id uuid NOT NULL,
  stored_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relation, id)
);
CREATE INDEX delivery_relation_stored_at ON headgate.delivery (relation, stored_at);

-- How many requests came to each table: a row for each minute of a day that had a request, whose place the next day takes: it never grows beyond
-- that. Headgate alone writes it. HOT updates want room in the page.
CREATE TABLE headgate.traffic_minute (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 1439),
  minute timestamptz NOT NULL,
  stored bigint NOT NULL,
  unauthorized bigint NOT NULL,
  refused bigint NOT NULL,
  unavailable bigint NOT NULL,
  rows bigint NOT NULL,
  -- By duration: up to 1 ms, 2, 5, 10 … 10 s, and beyond.
  took int[] NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (relation, slot)
) WITH (fillfactor = 60);

-- WITH (keep = …): each pass over a table that removed something, or that could not. Written in the transactions that remove the rows.
CREATE TABLE headgate.keep_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  keep text NOT NULL,
  began_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz NOT NULL DEFAULT now(),
  rows bigint NOT NULL,
  -- Rows that had arrived before it were removed; NULL: none were.
  older_than timestamptz,
  -- Why none were; NULL: some were.
  reason text
);
CREATE INDEX keep_log_relation_id ON headgate.keep_log (relation, id);

---------------------------------------------------------------- what Headgate alone may touch: nobody can lock it, or hold it up

-- The names of the channels on which Headgate listens. Who does not know them can neither flood them nor overhear them.
CREATE TABLE headgate.channel (
  purpose text PRIMARY KEY,
  name text NOT NULL
);
SELECT headgate.new_channels();

CREATE TABLE headgate.cluster (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  identity text NOT NULL
);
INSERT INTO headgate.cluster (identity) VALUES (headgate.cluster_identity());

-- A text that Headgate has sealed: says whether the master key is the one of this database.
CREATE TABLE headgate.key_check (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  seal_id uuid NOT NULL,
  sealed text NOT NULL
);

-- Its one row is locked by whoever trims headgate.rejected_requests.
CREATE TABLE headgate.trimming (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO headgate.trimming DEFAULT VALUES;

-- Whoever removes rows (keep) holds its one row meanwhile: of several Headgates one does it.
CREATE TABLE headgate.keeping ("only" boolean PRIMARY KEY DEFAULT true CHECK ("only"));
INSERT INTO headgate.keeping DEFAULT VALUES;

-- Empty tables that are only locked: by transactions that write rows with keys, those of one table always the same one.
-- An advisory lock would be anybody's to take.
DO $body$
BEGIN
  FOR slot IN 0 .. 31 LOOP
    EXECUTE format('CREATE TABLE headgate.commit_lock_%s ()', slot);
  END LOOP;
END
$body$;

-- Alerts that several Headgates of this database see: who tells them, and who sees them still.
CREATE TABLE headgate.alert (
  -- A rule and its labels, as JSON.
  condition text PRIMARY KEY CHECK (octet_length(condition) BETWEEN 1 AND 2000),
  since timestamptz NOT NULL,
  says text NOT NULL CHECK (octet_length(says) <= 4096),
  -- The receiver knows that it is so.
  told boolean NOT NULL,
  -- Who is telling it, or telling that it is over, and since when.
  teller text,
  claimed_at timestamptz
);
CREATE TABLE headgate.alert_seen (
  condition text NOT NULL REFERENCES headgate.alert ON DELETE CASCADE,
  teller text NOT NULL CHECK (octet_length(teller) <= 63),
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (condition, teller)
);

-- The certificate that Headgates on one database share, and which of them asks an authority for the next one. `name`: SHA-256 of the authority and the
-- domains. Sealed: the account's key, the certificate with its key, and what the authority has to find under the domains just now.
CREATE TABLE headgate.acme (
  name text PRIMARY KEY CHECK (octet_length(name) <= 64),
  seal_id uuid,
  sealed text CHECK (octet_length(sealed) <= 524288),
  asker uuid,
  asking_until timestamptz,
  kept_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((seal_id IS NULL) = (sealed IS NULL))
);

---------------------------------------------------------------- who may change the catalog

-- Headgate's functions, for whoever asks for it as himself.
--
-- A SECURITY DEFINER function cannot know who called it: current_user is its owner, session_user is not who SET ROLE has
-- made the caller, and an argument can be a lie. The DEFAULT of a column is evaluated for the statement's own user, though,
-- and a column that nobody may fill cannot hold anything else. So whoever wants something of the catalog inserts a row
-- into headgate.request; a trigger with Headgate's rights reads from it who asks, does it or refuses, and stores nothing.
-- A privilege on columns, unlike one on the whole table, does not allow LOCK TABLE.
CREATE TABLE headgate.request (
  caller name NOT NULL DEFAULT current_user,
  action text NOT NULL,
  given jsonb NOT NULL
);
CREATE TRIGGER act BEFORE INSERT ON headgate.request FOR EACH ROW EXECUTE FUNCTION headgate.act();
-- Also where session_replication_role is replica: nothing may ever be stored there.
ALTER TABLE headgate.request ENABLE ALWAYS TRIGGER act;

REVOKE ALL ON ALL TABLES IN SCHEMA headgate FROM PUBLIC;
GRANT INSERT (action, given) ON headgate.request TO PUBLIC;
GRANT SELECT (id, schema_name, name, owner, backend, created_at, altered_at) ON headgate.secret TO PUBLIC;
GRANT SELECT (relation, payload, options, document, includes, expression, created_at, collect) ON headgate.webhook_table TO PUBLIC;
GRANT SELECT (relation, position, alias, secret_id) ON headgate.webhook_table_secret TO PUBLIC;
GRANT SELECT (relation, secret_id) ON headgate.webhook_into TO PUBLIC;
GRANT SELECT (relation, position, unchecked, committed, expression) ON headgate.webhook_answer TO PUBLIC;
GRANT SELECT (relation, answer, position, alias, secret_id) ON headgate.webhook_answer_secret TO PUBLIC;
GRANT SELECT (id, name, owner, owner_oid, origins, rate, created_at) ON headgate.token TO PUBLIC;
GRANT SELECT (token_id, relation) ON headgate.token_table TO PUBLIC;
GRANT SELECT (relation, documents, keys, first_at, last_at) ON headgate.ignored_keys TO PUBLIC;
GRANT SELECT (id, received_at, relation, schema_name, table_name, door, status, code, reason, authenticated, remote_address, method, target, headers,
  headers_left_out, body, body_bytes, retry_asked_at, retry_forced, retried_at, retry_outcome, retry_reason, headers_masked)
  ON headgate.rejected_requests TO PUBLIC;

-- Everybody sees which tables and secrets there are, of the rest what is his, and the hash of no token (of refused requests: 0073_why.sql).
ALTER TABLE headgate.rejected_requests ENABLE ROW LEVEL SECURITY;
DO $body$
DECLARE
  it record;
BEGIN
  FOR it IN SELECT * FROM (VALUES ('secret', 'true'), ('webhook_table', 'true'), ('webhook_table_secret', 'true'), ('webhook_into', 'true'),
    ('token', 'pg_has_role(owner_oid, ''USAGE'')'), ('token_table', 'EXISTS (SELECT FROM headgate.token t WHERE t.id = token_id)'),
    ('ignored_keys', 'headgate.owns_table(relation)')) AS v (name, seen)
  LOOP
    EXECUTE format('ALTER TABLE headgate.%1$s ENABLE ROW LEVEL SECURITY; CREATE POLICY seen ON headgate.%1$s FOR SELECT USING (%2$s)', it.name, it.seen);
  END LOOP;
  FOR it IN SELECT unnest('{secret,webhook_table,webhook_table_secret,webhook_into,webhook_answer}'::text[]) AS name LOOP
    EXECUTE format('CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.%s FOR EACH ROW EXECUTE FUNCTION headgate.tell()', it.name);
  END LOOP;
END
$body$;

-- Where Headgate may not make these, the next look sees what they would have told.
DO $body$
BEGIN
  CREATE EVENT TRIGGER headgate_ddl ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN') EXECUTE FUNCTION headgate.on_ddl();
  CREATE EVENT TRIGGER headgate_drop ON sql_drop EXECUTE FUNCTION headgate.on_drop();
EXCEPTION WHEN insufficient_privilege THEN
  NULL;
END
$body$;
