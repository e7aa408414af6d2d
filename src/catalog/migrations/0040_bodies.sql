-- What a delivery's body was, so that a repeated id with another body is not taken for a copy (decision 0240).
-- A digest of 16 bytes; NULL: not known, as for deliveries that an earlier version has stored.
ALTER TABLE headgate.delivery ADD COLUMN IF NOT EXISTS body uuid;
