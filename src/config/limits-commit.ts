/** The bounds of lanes, groups and the catalog; a part of `limits` (limits.ts). */
export const commitLimits = {
  /** Rows that may wait in one table's lane. */
  laneRowsMax: 16_384,
  /** Bytes that may wait in one table's lane. */
  laneBytesMax: 64 * 1024 * 1024,
  /** Rows in one group, which is one transaction. */
  groupRowsMax: 2_048,
  /**
   * Requests larger than a group that are committed at one time next to the groups of their tables, over all tables; below
   * `commitConnectionsMax`, so that connections are left for the groups.
   */
  largeCommitsMax: 3,
  /** The longest time that a group should take, in ms: a table that commits more slowly gets smaller groups. */
  groupTargetMs: 500,
  /** Bytes in one group. */
  groupBytesMax: 8 * 1024 * 1024,
  /** Rows that the engine names and that are refused one by one before a failing group is cut in halves. */
  groupNamedRefusalsMax: 3,
  /**
   * Parts of a failing group, one after another, none of which can be stored, before the rest of it is given up for now:
   * for failures that no row causes. Enough for a dozen faulty rows at the beginning of a group.
   */
  groupFruitlessMax: 48,
  /** Engine connections that commit groups, per database. Also the number of tables that commit at one time. */
  commitConnectionsMax: 8,
  /**
   * How many of these the groups of one owner leave to others, and so do those of all slow owners together; at most half of the connections
   * that there are.
   */
  commitConnectionsLeft: 2,
  /** A group that takes longer is slow, in ms, whatever groups of its database usually take … */
  slowGroupMs: 1_000,
  /** … and how long its owner then has a smaller part of the connections, in ms. */
  slowOwnerMs: 30_000,
  /** Transactions of a database with groups that could share one, at one time; the other groups wait and go together. */
  sharedTransactionsMax: 2,
  /** Tables in one shared transaction: each needs locks, of which a server has `max_locks_per_transaction` times its connections. */
  sharedTablesMax: 128,
  /** Rows of a group that may share a transaction. */
  sharedGroupRowsMax: 64,
  /** Bytes of such a group. */
  sharedGroupBytesMax: 64 * 1024,
  /** Bytes in one shared transaction. */
  sharedBytesMax: 1024 * 1024,
  /** Below this time no group is called slow, in ms, even if groups are usually much quicker. */
  sharedQuickMs: 50,
  /**
   * Statements that a connection keeps for shared transactions, one per table: 25 kB of the engine's memory each, twice as much
   * as it remembers of a table anyway. Only `sharedTransactionsMax` connections of a database keep any.
   */
  sharedStatementsMax: 5_120,
  /** Shared transactions that do not need such a statement before it makes room for another. */
  sharedStatementsRestMin: 2_048,
  /**
   * Bound on one statement of a shared transaction, in ms; no further table is begun after twice this time. Does not depend on what groups usually take, which
   * is up to whoever sends most of them.
   */
  sharedStatementMs: 250,
  /** How long a statement may wait for a table that is locked, or for a row of another transaction, in ms. */
  sharedLockMs: 5,
  /** How long a table that was slow, or refused rows, shares no transaction the first time, in ms. */
  apartMinMs: 1_000,
  /** The longest such time, if it happens again and again, in ms. */
  apartMaxMs: 30_000,
  /** How long a database that had no more connections for commits is asked for no more, in ms. */
  commitConnectionsAgainMs: 30_000,
  /** Rows with a key that go to Citus as one list of values; more go as a query, which costs the same for any number of rows. */
  distributedValuesMax: 1_000,
  /** Sessions of owners of tables with code, per database: those that no rows use are closed to make room. */
  ownerSessionsMax: 64,
  /** How long such a connection is kept for its table, in ms; then its session is reset. */
  ownerSessionIdleMs: 60_000,
  /** How much of an answer of the engine is read without a pause, in bytes; what follows is read in turn with other long work. */
  answerAtOnceBytes: 64 * 1024,
  /** What the engine may say in one answer where code of an owner runs: its messages can be as long as it likes. */
  ownerAnswerBytesMax: 16 * 1024 * 1024,
  /** Connections on which Headgate looks after the logins of owners. */
  loginConnectionsMax: 2,
  /** How long one of them waits for a lock, in ms: the login's own sessions may hold it, and other owners wait behind. */
  loginLockMs: 200,
  /** Engine-side bound on one statement of a commit, in ms; below `ackDeadlineMs`, so that its outcome is known. */
  commitStatementTimeoutMs: 2_000,
  /** Shortest pause between two queries for the fate of a transaction whose answer was lost, in ms. */
  fateRetryMinMs: 10,
  /** Longest such pause, in ms; `ackDeadlineMs` ends them. */
  fateRetryMs: 200,
  /** Prepared statements that one connection for commits keeps. */
  commitStatementsMax: 128,
  /** Queries of the engine for one refused group, to tell senders which of their values does not fit. */
  groupProbesMax: 512,
  /** The same for `on_type_error = 'null'`, to find the values; beyond that, requests are refused. */
  groupNulledProbesMax: 8_192,
  /** Rows that are stored and rolled back to tell a sender which row of a request a constraint refuses. */
  groupTriedRowsMax: 200_000,
  /** How much of the engine's reason a sender is told, in characters. */
  reasonCharsMax: 200,
  /** Of the engine's own words about a refused row, for the owner of its table, in bytes. */
  engineErrorBytesMax: 2_048,

  /** Databases served at one time. */
  databasesMax: 64,
  /** Shortest pause between two looks at the catalog that requests cause which would be refused, in ms. */
  catalogMissIntervalMs: 50,
  /** The rest after such a look, as a multiple of the time that it took. */
  catalogMissRestTimes: 5,
  /** Tables that one such look is about; if more are asked about, it is a look at all. */
  catalogAskedMax: 100,
  /** Tables that are watched together: they are looked at if one of them may have changed. */
  catalogWatchedTables: 250,
  /** How often Headgate looks whether the catalog has changed, in ms. */
  catalogPollIntervalMs: 500,
  /** For how long the answer to such a look holds, in ms; then requests wait for the next. */
  catalogStaleMs: 2_000,
  /** How long the question whether a retry waits may wait for a lock on the refused requests, in ms. */
  catalogRetryLockMs: 100,
  /** How often a master key that is missing is looked for, in ms. */
  catalogKeyMs: 5_000,
  /** How long a new version of the catalog waits at a time for transactions that use the old one, in ms. */
  catalogLockMs: 1_000,
  /** How long a database that is about to be dropped or renamed is left alone, in ms. */
  catalogHoldMs: 5_000,
  /** Longest wait of one request for the catalog, in ms; then the sender gets 503. */
  catalogWaitMs: 2_000,
  /** How long a statement waits for a catalog that is being made or read for the first time, in ms. */
  catalogMadeMs: 15_000,
  /** Webhook tables that are read at one time. */
  catalogTablesMax: 100,
  /** After reading only what has changed, all of it is read again after this time, in ms. */
  catalogWholeMs: 60_000,
  /** How long the catalog waits for a table that somebody has locked, in ms; then it is read without all that are locked, … */
  catalogLockedMs: 500,
  /** … and how often it is read in all, before it counts as unreadable. */
  catalogAroundAttemptsMax: 6,
  /** Tables of one owner that the engine fails to read, before the owner's other tables are left out unread. */
  catalogFaultyMax: 3,
  /** Longest time to read so many tables, in ms: some tenths of one for each, and more if the machine is busy. */
  catalogReadMs: 30_000,
  /** Relations that the events gateway remembers, per database. */
  relationsMax: 1_000,
  /** How long it trusts that a name still means the same relation, in ms. */
  relationAgeMs: 5_000,
} as const;
