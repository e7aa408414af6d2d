/** The bounds of the console; a part of `limits` (limits.ts). */
export const consoleLimits = {
  /** Links that were printed and not used yet; one more takes the place of the oldest. */
  consoleLinksMax: 32,
  /** How long a link is good, in ms. */
  consoleLinkMs: 10 * 60 * 1000,
  /** Sessions; one more takes the place of the one that was used longest ago. */
  consoleSessionsMax: 32,
  /** How long a session may be idle, and how long it lasts at most, in ms. */
  consoleIdleMs: 30 * 60 * 1000,
  consoleSessionMs: 12 * 60 * 60 * 1000,
  /** Attempts to log in a minute from one address, and addresses that are counted. */
  consoleTriesPerMinuteMax: 5,
  consoleTriersMax: 4_096,
  /** Body of a request to the console, in bytes, and how long it may take, in ms. */
  consoleBodyBytesMax: 1024 * 1024,
  consoleBodyMs: 10_000,
  /** Of one that logs in, in bytes. */
  consoleLoginBytesMax: 16 * 1024,
  /** Statements of all sessions at one time, and connections of one session that are kept. */
  consoleStatementsMax: 16,
  consoleConnectionsMax: 3,
  /** How long connecting to the SQL port, and a statement, may take, in ms. */
  consoleConnectMs: 5_000,
  consoleStatementMs: 10_000,
  /** How long a cancelled statement has to end before its connection is cut off, in ms. */
  consoleCancelMs: 2_000,
  /** How long a connection is kept idle, in ms. */
  consoleConnectionIdleMs: 10_000,
  /** What is read of one result. */
  consoleRowsMax: 1_000,
  consoleResultBytesMax: 8 * 1024 * 1024,
  consoleResultTablesMax: 64,
  consoleNoticesMax: 50,
  /** Refused requests that one retry of a filter takes, those of them that are asked for at one time … */
  consoleRetriesMax: 100_000,
  consoleRetryBatchMax: 500,
  /** … and how often, and how many times, it is looked whether they were tried, in ms. */
  consoleRetryLookMs: 300,
  consoleRetryLooksMax: 200,
  /** How often a flush is measured for who looks, in ms, and characters that are shown of a certificate's names. */
  consoleFlushMs: 60_000,
  consoleNamesCharsMax: 1_000,
  /** Headers of a request that is sent again. */
  consoleReplayHeadersMax: 200,

  /** Outcomes of requests that a process remembers. */
  tailRingMax: 2_000,
  /** Of one accepted request that its table's owner may look at: so many bytes of its body … */
  heldBodyBytesMax: 64 * 1024,
  /** … and of all of them, with their headers, of one table and of one process. */
  heldTableBytesMax: 4 * 1024 * 1024,
  heldBytesMax: 16 * 1024 * 1024,
  /** What one costs beside its texts, in bytes, and how often it is looked whether their tables are what they were, in ms. */
  heldCostBytes: 1_024,
  heldLookMs: 1_000,
  /** How often those who watch are told, in ms. */
  tailFlushMs: 200,
  /** Lines of one process in that time, before anybody's rights are asked for; the others are counted. */
  tailSourceLinesMax: 100,
  /** Lines that one watcher is told in that time: 50 a second. */
  tailLinesMax: 10,
  /** Lines of before that a watcher begins with. */
  tailRecentMax: 200,
  /** Those who watch at one time. */
  tailWatchersMax: 16,
  /** How often a watcher's rights are read anew, and anew for a table that is not known, in ms. */
  tailRightsMs: 5_000,
  tailUnknownMs: 1_000,
  /** Bytes that wait for one watcher before it is told less. */
  tailWaitingBytesMax: 256 * 1024,
  /** How often a silent stream says that it is there, in ms. */
  tailBeatMs: 15_000,
} as const;
