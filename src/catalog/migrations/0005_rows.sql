-- Keys that are no columns, forms of secrets, and what is told of headers that are not kept.

-- The column that takes the members whose keys are no columns, as headgate.place() writes it; null: none does.
ALTER TABLE headgate.webhook_table ADD COLUMN collect jsonb CHECK (collect IS NULL OR headgate.is_place(collect) IS TRUE);
GRANT SELECT (collect) ON headgate.webhook_table TO PUBLIC;

-- Documents that were stored without some of their members, because these are no columns: a row for each table, and the
-- first names. Headgate alone writes it; the owner of a table sees its row.
CREATE TABLE headgate.ignored_keys (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  documents bigint NOT NULL,
  keys text[] NOT NULL,
  first_at timestamptz NOT NULL DEFAULT now(),
  last_at timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE headgate.ignored_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.ignored_keys FOR SELECT USING (headgate.owns_table(relation));
GRANT SELECT (relation, documents, keys, first_at, last_at) ON headgate.ignored_keys TO PUBLIC;

-- Of which forms a secret's value is, as senders ask for one (whsec_ and base64, hexadecimal digits …). It is a hint at
-- the value, and Headgate's alone. A secret without a row was made before this was kept.
CREATE TABLE headgate.secret_form (
  secret_id uuid PRIMARY KEY REFERENCES headgate.secret ON DELETE CASCADE,
  forms text[] NOT NULL CHECK (pg_column_size(forms) <= 8192)
);

-- By lower-case name, of headers that are not kept: how long they were and how they began, where that tells nothing.
ALTER TABLE headgate.rejected_requests ADD COLUMN headers_masked jsonb NOT NULL DEFAULT '{}';
GRANT SELECT (headers_masked) ON headgate.rejected_requests TO PUBLIC;
