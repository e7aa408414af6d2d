-- Webhooks that were kept on Headgate's disk while the database was away: how far they have arrived, and those that it refused.

-- Of each spool and table the last request whose rows are here. Written in the transaction that stores them, so that it is
-- never anything else: whatever is believed elsewhere of how far a spool has come is compared with this.
CREATE TABLE headgate.spool_position (
  spool uuid NOT NULL,
  relation oid NOT NULL,
  position bigint NOT NULL CHECK (position > 0),
  moved_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (spool, relation)
);

-- NULL: the table was gone when its request was handed over. Superusers see it.
ALTER TABLE headgate.rejected_requests ALTER COLUMN relation DROP NOT NULL;
ALTER TABLE headgate.rejected_requests DROP CONSTRAINT rejected_requests_door_check;
ALTER TABLE headgate.rejected_requests
  ADD CONSTRAINT rejected_requests_door_check CHECK (door IN ('http', 'websocket', 'spool'));
