-- The certificate that Headgates on one database share, and which of them asks an authority for the next one.

-- `name`: SHA-256 of the authority and the domains. Sealed: the account's key, the certificate with its key, and what the authority has to find
-- under the domains just now. Headgate alone reads and writes it.
CREATE TABLE headgate.acme (
  name text PRIMARY KEY CHECK (octet_length(name) <= 64),
  seal_id uuid,
  sealed text CHECK (octet_length(sealed) <= 524288),
  asker uuid,
  asking_until timestamptz,
  kept_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((seal_id IS NULL) = (sealed IS NULL))
);
REVOKE ALL ON headgate.acme FROM PUBLIC;
