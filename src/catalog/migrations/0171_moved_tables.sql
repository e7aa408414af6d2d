-- The tables that `headgate move` brought here, and what they were there: requests that a disk keeps for them are handed over here.
CREATE TABLE IF NOT EXISTS headgate.moved_table (
  -- headgate.home() of the database they came from.
  home text NOT NULL,
  -- What the table was there.
  oid oid NOT NULL,
  relation regclass NOT NULL,
  PRIMARY KEY (home, oid)
);
