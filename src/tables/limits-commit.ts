/** The bounds of lanes, groups and the catalog; a part of `limits` (limits.ts). */
export const commitLimits = {
  /** Rows that may wait in one table's lane. */
  laneRowsMax: 16_384,
  /** Bytes that may wait in one table's lane. */
  laneBytesMax: 64 * 1024 * 1024,
  /** Rows in one group, that is one transaction. */
  groupRowsMax: 2_048,
  /**
   * Requests larger than a group that are committed at one time beside the groups of their tables, over all tables; below
   * `commitConnectionsMax`, so that connections are left for the groups.
   */
  largeCommitsMax: 3,
  /** What a group should take at most, in ms: of a table that commits more slowly the groups become smaller. */
  groupTargetMs: 500,
  /** Bytes in one group. */
  groupBytesMax: 8 * 1024 * 1024,
  /** Rows refused one by one, named by the engine, before a failing group is cut in halves. */
  groupNamedRefusalsMax: 3,
  /**
   * Parts of a failing group, one after the other, none of which can be stored, before the rest of it waits for better times:
   * for failures that are no row's fault. Enough for a dozen such rows at the beginning of a group.
   */
  groupFruitlessMax: 48,
  /** Engine connections that commit groups, per database. Also how many tables commit at one time. */
  commitConnectionsMax: 8,
  /** Transactions of a database that hold groups which could share one, at one time; the others wait and go together. */
  sharedTransactionsMax: 2,
  /** Tables in one shared transaction: each needs locks, of which a server has `max_locks_per_transaction` times its connections. */
  sharedTablesMax: 128,
  /** Rows of a group that may share a transaction. */
  sharedGroupRowsMax: 64,
  /** Bytes of such a group. */
  sharedGroupBytesMax: 64 * 1024,
  /** Bytes in one shared transaction. */
  sharedBytesMax: 1024 * 1024,
  /** What no group is called slow below, in ms, also where groups are usually much quicker. */
  sharedQuickMs: 50,
  /**
   * Statements that a connection keeps for shared transactions, one a table: 25 kB of the engine's memory each, twice as much
   * as it remembers of a table anyway. Only `sharedTransactionsMax` connections of a database keep any.
   */
  sharedStatementsMax: 5_120,
  /** Shared transactions in which such a statement was not needed, until it makes room for another. */
  sharedStatementsRestMin: 2_048,
  /** Engine-side bound on one statement of a shared transaction, in ms, as long as that is not what the transaction usually takes. */
  sharedStatementMinMs: 250,
  /** And at most, in ms; no further table is begun after this time. Twice as much is below `commitStatementTimeoutMs`. */
  sharedStatementMs: 900,
  /** How long a table may wait for who holds it, or a row for another transaction's, in ms. */
  sharedLockMs: 5,
  /** How long a table that was slow, or refused rows, shares no transaction at first, in ms. */
  apartMinMs: 1_000,
  /** And at most, when it is so again and again, in ms. */
  apartMaxMs: 30_000,
  /** How long a database that had no more connections for commits is not asked for more, in ms. */
  commitConnectionsAgainMs: 30_000,
  /** Rows with a key that go to Citus as one list of values; more go as a query, which costs the same for any number of rows. */
  distributedValuesMax: 1_000,
  /** Connections kept for the tables whose code has run in them, per database; below `commitConnectionsMax`. */
  keptSessionsMax: 4,
  /** How long one is kept for its table, in ms; then its session is made as new. */
  keptSessionMs: 1_000,
  /** Engine-side bound on one statement of a commit, in ms; below `ackDeadlineMs`, so that its end is known. */
  commitStatementTimeoutMs: 2_000,
  /** Shortest pause between two questions what became of a transaction whose answer was lost, in ms. */
  fateRetryMinMs: 10,
  /** Longest such pause, in ms; `ackDeadlineMs` ends them. */
  fateRetryMs: 200,
  /** Prepared statements that one connection for commits keeps. */
  commitStatementsMax: 128,
  /** Questions that one refused group puts to the engine to tell senders which of their values does not fit. */
  groupProbesMax: 512,
  /** As many that `on_type_error = 'null'` puts, to find the values; past it requests are refused. */
  groupNulledProbesMax: 8_192,
  /** Rows that are stored and rolled back again to tell a sender which row of a request a constraint refuses. */
  groupTriedRowsMax: 200_000,
  /** What a sender is told of the engine's reason, in characters. */
  reasonCharsMax: 200,

  /** Databases served at one time. */
  databasesMax: 64,
  /** Shortest pause between two reads of the catalog that unknown paths cause, in ms. */
  catalogMissIntervalMs: 50,
  /** How many times as long as such a read took it rests. */
  catalogMissRestTimes: 5,
  /** How often the catalog is compared with the engine where notifications may be missing, in ms. */
  catalogPollIntervalMs: 700,
  /** How often the catalog is compared where the engine tells of changes: also finds a connection that is dead, in ms. */
  catalogHeartbeatMs: 5_000,
  /** How long the engine is given to bring back a notification of one's own, which shows that it tells of changes, in ms. */
  catalogEchoMs: 500,
  /** How long a new version of the catalog waits for transactions that use the old one, at a time, in ms. */
  catalogLockMs: 1_000,
  /** How long a database that is about to be dropped or renamed is left alone, in ms. */
  catalogHoldMs: 5_000,
  /** Longest wait for the catalog on behalf of one request, in ms; past it the sender reads 503. */
  catalogWaitMs: 2_000,
  /** Webhook tables up to which all of them are read when one has changed; of more, only those that have, unless that is half of them. */
  catalogWholeMax: 200,
  /** How long after reading only what has changed all of it is read again, in ms. */
  catalogWholeMs: 60_000,
  /** Longest time to read all of the catalog, in ms: some tenths of one for each table, and more where the machine is busy. */
  catalogReadMs: 30_000,
  /** Relations that the events gateway remembers, per database. */
  relationsMax: 1_000,
  /** How long it believes that a name means the relation that it meant, in ms. */
  relationAgeMs: 5_000,
} as const;
