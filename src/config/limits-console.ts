/** The bounds of the console; a part of `limits` (limits.ts). */
export const consoleLimits = {
  /** Links that were printed and not used yet; a further one replaces the oldest. */
  consoleLinksMax: 32,
  /** How long a link is valid, in ms. */
  consoleLinkMs: 10 * 60 * 1000,
  /** Logins; a further one replaces one of the role that has most. Tabs of one login; a further one replaces the one used longest ago. */
  consoleSessionsMax: 32,
  consoleTabsMax: 16,
  /** Links by which one login is shared and that were not used yet, and logins that came of them, together. */
  consoleSharedMax: 8,
  /** How long a session may be idle, and how long it lasts at most, in ms. */
  consoleIdleMs: 30 * 60 * 1000,
  consoleSessionMs: 12 * 60 * 60 * 1000,
  /** Failed attempts to log in per minute from one address, and addresses that are counted. */
  consoleTriesPerMinuteMax: 5,
  consoleTriersMax: 4_096,
  /** Body of a request to the console, in bytes, and how long it may take, in ms. */
  consoleBodyBytesMax: 1024 * 1024,
  consoleBodyMs: 10_000,
  /** Body of a request that logs in, in bytes. */
  consoleLoginBytesMax: 16 * 1024,
  /** Statements of all sessions at one time, and of those of one role; connections of one session that are kept. */
  consoleStatementsMax: 24,
  consoleRoleStatementsMax: 16,
  consoleConnectionsMax: 3,
  /** How long connecting to the SQL port, and a statement, may take, in ms. */
  consoleConnectMs: 5_000,
  consoleStatementMs: 10_000,
  /** How long a cancelled statement has to end before its connection is cut off, in ms. */
  consoleCancelMs: 2_000,
  /** How long a connection is kept idle, in ms. */
  consoleConnectionIdleMs: 10_000,
  /** How long a connection is used again, in ms: a role that may no longer log in keeps its session no longer. */
  consoleConnectionMs: 60_000,
  /** How much of one result is read. */
  consoleRowsMax: 1_000,
  consoleResultBytesMax: 8 * 1024 * 1024,
  consoleResultTablesMax: 64,
  consoleNoticesMax: 50,
  /** Refused requests that one retry of a filter takes, those of them that are submitted at one time … */
  consoleRetriesMax: 100_000,
  consoleRetryBatchMax: 500,
  /** … and the pause, in ms, between two looks whether they were tried, and the number of looks. */
  consoleRetryLookMs: 300,
  consoleRetryLooksMax: 200,
  /** How often a flush is measured for a viewer, in ms, and how much of a certificate's names is shown, in characters. */
  consoleFlushMs: 60_000,
  consoleNamesCharsMax: 1_000,
  /** Headers of a request that is sent again. */
  consoleReplayHeadersMax: 200,
  /** Checks of tables whose senders are asked for at one time. */
  consoleChecksMax: 100,
  consoleCheckSecretsMax: 16,
  /** One filter of a list of requests, in characters. */
  consoleFilterCharsMax: 4_096,
  /** A form of the wizard with the request that it is tried on, in bytes: it is signed in some hundred ways. */
  consoleTrialBytesMax: 128 * 1024,

  /** Outcomes of requests that a process remembers. */
  tailRingMax: 2_000,
  /** Of one accepted request that its table's owner may look at, this much of its body … */
  heldBodyBytesMax: 64 * 1024,
  /** … and of all of them, with their headers, per table and per process. */
  heldTableBytesMax: 4 * 1024 * 1024,
  heldBytesMax: 16 * 1024 * 1024,
  /** What one costs besides its texts, in bytes, and how often its table is checked for changes, in ms. */
  heldCostBytes: 1_024,
  heldLookMs: 1_000,
  /** How often watchers are told, in ms. */
  tailFlushMs: 200,
  /** For the id of a refused request that is being written down watchers wait so long, in ms. */
  tailKeptMs: 1_000,
  /** Refused requests that were written down before they were answered. */
  tailEarlyMax: 100,
  /** Lines of one process in that time, before the rights of watchers are checked; the others are counted. */
  tailSourceLinesMax: 100,
  /** Lines that one watcher gets in that time: 50 a second. */
  tailLinesMax: 10,
  /** Earlier lines that a watcher begins with. */
  tailRecentMax: 200,
  /** Watchers at one time, and those of one role. */
  tailWatchersMax: 64,
  tailRoleWatchersMax: 16,
  /** How often the rights of a watcher are read again, and how often for a table that is not known, in ms. */
  tailRightsMs: 5_000,
  tailUnknownMs: 1_000,
  /** How long the last known rights hold while the database does not answer, in ms. */
  tailLastRightsMs: 15 * 60 * 1000,
  /** Bytes that wait for one watcher before it gets fewer lines. */
  tailWaitingBytesMax: 256 * 1024,
  /** Requests of one page of a list, and those of which a text is looked for in one go. */
  listRowsMax: 100,
  listScannedMax: 1_000,
  /** How often a stream says whether requests can be accepted, in ms. */
  tailBeatMs: 1_000,
} as const;
