-- Alerts that several Headgates of this database see: who tells them, and who sees them still. Headgate alone writes it.

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
REVOKE ALL ON headgate.alert, headgate.alert_seen FROM PUBLIC;
