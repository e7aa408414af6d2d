-- Deliveries that a table has stored, for those that store each of them once (the option dedupe).

-- Headgate alone reads and writes it. `id` is a digest, so that no id of a sender's is larger than another. Without a reference to the
-- table: that would cost every row a lock, and ids of a table that is gone are forgotten with those that are too old.
CREATE TABLE headgate.delivery (
  relation regclass NOT NULL,
  id uuid NOT NULL,
  stored_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relation, id)
);
CREATE INDEX delivery_relation_stored_at ON headgate.delivery (relation, stored_at);
