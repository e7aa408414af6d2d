/** The bounds of the doors beside the webhook listener (SQL, events gateway, console) and of commands; a part of `limits` (limits.ts). */
export const doorLimits = {
  // The SQL door, the admin port, rates and certificates.
  /** Client connections of the SQL door. */
  sqlConnectionsMax: 200,
  /** Further ones for roles that hold few … */
  sqlReservedMax: 10,
  /** … fewer than this. */
  sqlReservedOfOneMax: 3,
  /** Size of a start-up packet of the SQL door, in bytes. PostgreSQL's own bound. */
  sqlStartupBytesMax: 10_000,
  /** From connecting to the end of authentication, in ms. */
  sqlStartupTimeoutMs: 60_000,
  /** Largest Query or Parse message that is searched for Headgate's statements; larger ones pass unread. */
  sqlStatementBytesMax: 16 * 1024 * 1024,
  /** How long such a search goes on before others get their turn, in ms. A single statement is not interrupted. */
  sqlSearchMs: 50,
  /** Headgate's own statements in one text; also of the text that replaces them there are at most `sqlStatementBytesMax` bytes. */
  sqlOwnStatementsMax: 1_000,
  /** Tokens of one statement of Headgate's; a longer statement is PostgreSQL's. */
  sqlOwnTokensMax: 262_144,
  /** Largest message of a client that has not yet authenticated, in bytes. */
  sqlAuthMessageBytesMax: 64 * 1024,
  /** Wrong passwords of a minute, for one name and from one network, after which the next ones wait; and names that are remembered with their network. */
  sqlWrongPasswordsMax: 5,
  sqlWrongPasswordNamesMax: 4_096,
  /** The time between two of them then, in ms, and how long one waits at most; a further one is refused. */
  sqlPasswordPauseMs: 1_000,
  sqlPasswordWaitMs: 10_000,
  /** Bytes that wait for one peer of a relayed connection before the other side is paused. */
  sqlRelayBufferBytesMax: 1024 * 1024,
  /** What is read of a client behind a message that is held, in bytes, before it has to wait. */
  sqlHeldBytesMax: 64 * 1024,
  /** Connections of the SQL door that are not authenticated yet, in addition to `sqlConnectionsMax`; a further one replaces one of them. */
  sqlOpeningsMax: 256,
  /** Messages of one SQL client that the engine has not answered; beyond that the client is paused. */
  sqlOutstandingMax: 65_536,
  /** Prepared statements of one SQL client whose command tag Headgate restores. */
  sqlRewrittenStatementsMax: 1_024,
  /** Largest error, notice or parameter status of the engine that is examined, in bytes; larger ones pass unread. */
  sqlNoticeBytesMax: 1024 * 1024,
  /** Engine connections for looking up the passwords of clients of the SQL door. */
  sqlPasswordConnectionsMax: 2,
  /**
   * How long a follower of the log may leave its full buffer unread, in ms. The engine's process that sends to it cannot end before it has said
   * why, and a checkpoint that takes its slot away waits for that end.
   */
  sqlFollowerUnreadMs: 60_000,
  /** How long a client may take to read the door's last message, in ms. */
  sqlLingerMs: 2_000,

  /** Connections of the admin port. */
  adminConnectionsMax: 256,
  /** How long a request to it may take to arrive, in ms. */
  adminRequestTimeoutMs: 10_000,

  /** Addresses (for IPv6: networks) whose requests are counted for a rate; the one seen longest ago is dropped. */
  rateAddressesMax: 65_536,
  /** Tables whose requests are counted for a rate. */
  rateTablesMax: 16_384,
  /** Names whose requests one listener process reports to the others at one time. */
  rateToldNamesMax: 4_096,
  /** How often listener processes report to each other, in ms. */
  rateToldMs: 25,
  /** How often the files of TLS certificates are compared with what is in use, in ms. */
  tlsPollMs: 5_000,
  /** How long before its expiry a certificate is warned of, and how often then, in ms. */
  tlsExpirySoonMs: 14 * 24 * 60 * 60 * 1000,
  tlsExpiryToldMs: 24 * 60 * 60 * 1000,

  // The events gateway and `headgate send`.
  /** Largest body of POST /v1/events, before and after decompression, in bytes. */
  eventsBodyBytesMax: 100 * 1024 * 1024,
  /** Parsed request targets of POST /v1/events that are remembered. */
  eventsTargetsMax: 1_000,
  /** Short answers that are kept in the form in which they are sent. */
  gatewayRepliesMax: 1_000,
  /** A body up to this size goes through a lane, together with others; a larger one in a transaction of its own. */
  eventsLaneBytesMax: 1024 * 1024,
  /** One event, in bytes. */
  eventsLineBytesMax: 16 * 1024 * 1024,
  /** How much one statement of such a transaction stores, in bytes. */
  eventsChunkBytesMax: 512 * 1024,
  /** Such transactions at one time, … */
  eventsStreamsMax: 4,
  /** … and of these, for bodies with tokens of CREATE TOKEN, which strangers may hold and need not send on: some are always left for others. */
  eventsStreamsOfTokensMax: 2,
  /** How long the next one waits while a statement of another is at the engine, in ms. */
  eventsTurnMs: 500,
  /** Longest pause between two parts of a body while it is sent, in ms. */
  eventsPauseMs: 30_000,
  /** From the first byte of a body to its last, in ms. */
  eventsUploadMs: 300_000,
  /** From the last byte of a body to the answer, in ms. */
  eventsDeadlineMs: 30_000,
  /** Lines that on_error=skip lists; further ones are counted. */
  eventsSkippedMax: 1_000,
  /** Bodies of the events gateway that are held in memory at one time, in bytes. */
  gatewayBodiesBytesMax: 128 * 1024 * 1024,
  /** Connections for rows that go to a RisingWave, per database: the number of its tables that are written at one time. */
  risingwaveConnectionsMax: 8,
  /** Other servers that rows of tables go to, to which connections are kept. */
  intoServersMax: 32,
  /** What such a server may send from one question to the next, in bytes and messages; one eighth of the bytes bounds an INSERT or VALUES. */
  intoAnswerBytesMax: 2 * 1024 * 1024,
  intoAnswerMessagesMax: 10_000,
  /** From the last byte of a request whose row goes there to its answer, in ms: a checkpoint is due every second. */
  intoDeadlineMs: 8_000,
  /** How long a group of the spool may take there, in ms; no sender waits for it. */
  intoHandOverMs: 60_000,
  /** Parameters of one statement there: RisingWave reads their number as signed. */
  risingwaveParamsMax: 32_767,
  /** Rows of one INSERT into RisingWave: each INSERT waits for a checkpoint, however many rows it has. */
  risingwaveGroupRowsMax: 8_192,
  /** The time that such an INSERT may take before its groups become smaller, in ms; a checkpoint is due every second. */
  risingwaveGroupTargetMs: 5_000,
  /** Requests of the events gateway at one time, … */
  gatewayRequestsMax: 1_000,
  /** … and of these, those with such tokens. */
  gatewayRequestsOfTokensMax: 800,
  /** Connections of the events gateway; further ones are closed as they arrive. */
  gatewayConnectionsMax: 10_000,
  /** Largest body of POST /v1/sql, in bytes. */
  gatewaySqlBytesMax: 16 * 1024 * 1024,
  /** Parameters of one statement. PostgreSQL's own bound. */
  gatewaySqlParamsMax: 65_535,
  /** Executions of one statement in one request. */
  gatewaySqlExecutionsMax: 1_000,
  /** Largest result of POST /v1/sql, both as received from the engine and as JSON, in bytes. */
  gatewayResultBytesMax: 64 * 1024 * 1024,
  /** Size beyond which a result is read from the engine only while no other such result is, in bytes. */
  gatewayLargeResultBytes: 2 * 1024 * 1024,
  /** All results that are being read or sent at one time, in bytes. */
  gatewayResultsBytesMax: 128 * 1024 * 1024,
  /** How much of that a result may take before it counts as one of the few large ones, in bytes. */
  gatewayResultShareBytes: 16 * 1024 * 1024,
  /** What those few may take beyond it, together, in bytes: the rest is left for everybody. */
  gatewayResultSharesBytesMax: 64 * 1024 * 1024,
  /** Free space for results that is needed before more of one is read from the engine, in bytes. */
  gatewayResultRoomBytes: 4 * 1024 * 1024,
  /** How long a result waits for that space, in ms. */
  gatewayResultRoomMs: 5_000,
  /** How long the reader of a result may read nothing, in ms. */
  gatewayReadPauseMs: 30_000,
  /** The lowest average speed at which a reader may read a result, in bytes per second. */
  gatewayReadBytesPerSecondMin: 128 * 1024,
  /** How long one request of POST /v1/sql may run, in ms. */
  gatewaySqlTimeoutMs: 30_000,
  /** How long a cancelled statement may take to end before its connection is cut off, in ms. */
  gatewayCancelMs: 1_000,
  /** Connections for POST /v1/sql, per database. */
  gatewaySqlConnectionsMax: 8,
  /** Connections on which the embedded engine is queried for databases and the gateway's role. */
  gatewayRoleConnectionsMax: 2,
  /** How long a database may take to grant that role its rights, once on every table, in ms. */
  gatewayRoleAnswerMs: 60_000,
  /** How long the first request there waits for transactions that may be creating tables, in ms; longer ones are checked again later. */
  gatewayRoleWaitMs: 1_000,
  /** Requests that may wait for one of them, per database. */
  gatewaySqlWaitingMax: 256,
  /** How long they wait, in ms. */
  gatewaySqlWaitMs: 5_000,
  /** Notices of one request that its answer includes. */
  gatewayNoticesMax: 100,
  /** Names of types that are remembered, per database. */
  gatewayTypesMax: 10_000,
  /** Tables of one token of CREATE TOKEN. */
  tokenTablesMax: 32,
  /** Origins of one token … */
  tokenOriginsMax: 16,
  /** … and the length of one, in characters; a longer Origin of a request matches none. */
  originCharsMax: 255,
  /** Rate of a token, in characters. */
  tokenRateCharsMax: 63,
  /** Requests whose tokens are looked up in the database with one query. */
  tokensAskedMax: 256,
  /** A token is looked up again if its body took longer than this to arrive, in ms. */
  tokenAgeMs: 500,
  /** How long a token FOR SELECT lasts unless its statement says otherwise, in seconds … */
  readTokenSeconds: 600,
  /** … and at most. The catalog has the same bound. */
  readTokenSecondsMax: 86_400,
  /** How often it is looked whether the token of an open stream still counts, in ms. */
  readTokenLookMs: 1_000,
  /** Tokens whose rates are kept. */
  tokenRatesMax: 10_000,
  /** Streams of rows (GET /v1/events) at one time, … */
  streamsMax: 100,
  /** … and tables that they follow. */
  streamTablesMax: 32,
  /** Of the streams, those of tokens FOR SELECT, which strangers may hold: some are always left for others. */
  streamsOfTokensMax: 80,
  /** The same of the tables: a table counts once for each format and number of rows that its readers have asked for. */
  streamTablesOfTokensMax: 24,
  /** And of the memory for results, in bytes. */
  streamsOfTokensBytesMax: 64 * 1024 * 1024,
  /** How often the end of a table is searched for new rows while a reader waits for them, in ms. */
  streamLookMs: 100,
  /** How long the rest of a table is left alone after a piece of it was read, as a multiple of the time that took. */
  streamRestTimes: 10,
  /** How much of a table one statement reads, in blocks, and the bytes of rows after which it pauses. */
  streamChunkBlocksMax: 1_024,
  streamPageBytes: 256 * 1024,
  /** How far before the end of a table's file new rows are often searched for, in blocks. */
  streamTailBlocks: 256,
  /** Rows that are fetched at once while nothing is known of their size. */
  streamRowsMax: 1_024,
  /** Largest page, in bytes, as received: a larger row cannot be streamed. */
  streamReceivedBytesMax: 20 * 1024 * 1024,
  /** Size beyond which a piece of a stream counts among all results, in bytes. */
  streamLargeBytes: 1024 * 1024,
  /** Looks that are remembered while a transaction stays open. */
  streamLooksMax: 64,
  /** Parts of a table that may have been read up to different positions before neighbours are brought to the same one. */
  streamPartsMax: 8,
  /** Rows of one table that are held for its slower readers, in bytes; a reader further behind reads the table. */
  streamHeldBytesMax: 4 * 1024 * 1024,
  /** Sessions of one owner in which streams are at work at one time. */
  streamSessionsOfOwnerMax: 8,
  /** Readers that read the table themselves at one time, of the tables of each owner whose session that takes, and of all others. */
  streamCatchUpsMax: 2,
  /** How long one page of such a reader may delay the next one, in ms. */
  streamPageMs: 5_000,
  /** Silence in a stream before a comment, in ms. */
  streamKeepAliveMs: 15_000,
  /** How long a look waits for committed rows to reach the disk, how often that is checked, and after how long a flush is requested, in ms. */
  streamFlushMs: 5_000,
  streamFlushPauseMs: 20,
  streamFlushAskMs: 100,
  /** Longest pause before an unreachable database is asked again, in ms. */
  streamRetryMs: 5_000,
  /** Length of a position, in characters. */
  streamPositionCharsMax: 4_096,
  /** After how long a reader comes back when a stream has ended, in ms. */
  streamAgainMs: 1_000,
  /** Length of a request id, in characters. */
  requestIdCharsMax: 128,

  /** Requests that `headgate send` has under way at one time. */
  sendInFlightMax: 32,
  /** Requests of one `headgate send`. */
  sendCountMax: 1_000_000,
  /** How long `headgate send` waits for an answer, in ms. */
  sendAnswerMs: 30_000,
  /** How much of an answer `headgate send` prints, in bytes. */
  sendAnswerBytesMax: 64 * 1024,
  /** Lease that `headgate websub` asks for, in s, and the longest … */
  websubLeaseS: 5 * 24 * 60 * 60,
  websubLeaseMaxS: 365 * 24 * 60 * 60,
  /** … and the shortest and longest pause before it asks a hub again that has refused, in ms. */
  websubRetryMinMs: 60_000,
  websubRetryMs: 60 * 60 * 1_000,

  // The console.
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

  // Commands that talk to a Headgate from a terminal.
  /** How long connecting, or a query that the command itself makes, may take, in ms. */
  commandConnectMs: 10_000,
  /** How long `status` waits for the answer of `/readyz`, in ms. */
  statusAnswerMs: 2_000,
  /** Attempts after which a row of a table with a lease is dead, unless its worker says otherwise (docs/workers.md). */
  leaseAttempts: 10,
  /** Rows of one table that are delivered at one time, unless the owner says otherwise; to one host from all tables of a Headgate; and tables of its file. */
  deliverConcurrency: 8,
  deliverHostMax: 32,
  deliverTablesMax: 100,
  /** How often open and dead rows are counted, in ms, and the rest after that as a multiple of the time it took. */
  deliverCountMs: 15_000,
  deliverCountRestTimes: 20,
  /** How long a statement of the lease may take, in ms, and the longest pause after a failure of the database or the table. */
  deliverStatementMs: 30_000,
  /** Largest body that is sent on, and most that a claim may receive, in bytes. */
  deliverBodyBytesMax: 16 * 1024 * 1024,
  deliverReceivedBytesMax: 2 * 1024 * 1024 * 1024,
  /** How long deliveries that are on their way may take when Headgate stops, in ms. */
  deliverCloseMs: 4_000,
  deliverRetryMs: 30_000,
  /** How long one delivery may take, how long its row is claimed, and how long to wait if there is none, in ms. */
  deliverMs: 20_000,
  deliverLeaseMs: 60_000,
  deliverPauseMs: 500,
  /** Between two claims of few rows, ms. */
  deliverClaimMs: 20,
  /** Bytes of a receiver's answer that are read. */
  deliverAnswerBytesMax: 65_536,
  /** Failures in a row after which a receiver is left alone for a while: for the first of these times, then for twice as long, up to the second, in ms. */
  deliverFailuresMax: 5,
  deliverRestMinMs: 1_000,
  deliverRestMs: 300_000,
  /** The longest Retry-After that is followed, in seconds. */
  deliverRetryAfterMaxS: 86_400,
  /** Rows that are read at one time. */
  commandRowsMax: 200,
  /** Files that a command reads whole: profiles, positions, in bytes. */
  commandFileBytesMax: 1024 * 1024,

  /** Size of one page of rows that are followed, in bytes: the largest body, twice. */
  listenReceivedBytesMax: 384 * 1024 * 1024,
  /** How often `listen` looks, in ms, and its shortest rest as a multiple of the time that a look took. */
  listenPauseMs: 250,
  listenRestTimes: 10,
  /** The longest pause before something that did not answer is tried again, in ms. */
  listenRetryMs: 5_000,
  /** Characters of an answer's body that are shown. */
  listenShownCharsMax: 200,

  /** Reasons for which deliveries are refused that `init` names while it waits. */
  refusedReasonsMax: 10,

  /** Requests per second that `replay` begins if no rate is given, and the highest rate. */
  replayRate: 50,
  replayRateMax: 10_000,
  /** After how many requests in a row without an answer, or without a 2xx, a replay stops. */
  replayFailuresMax: 10,

  /** The size of a row group of a Parquet file: rows, and characters as PostgreSQL writes them; it may exceed this by one look. */
  parquetGroupRowsMax: 100_000,
  parquetGroupCharsMax: 32 * 1024 * 1024,

  /** How much `infer` reads. */
  inferLinesMax: 10_000,
  inferLineBytesMax: 16 * 1024 * 1024,
  inferKeysMax: 1_000,

  /** Flushes that `doctor` times, and the time from which on a disk is called slow, in ms. */
  doctorFlushes: 20,
  doctorSlowFlushMs: 10,
  /** How far two clocks may differ, in ms, and how long a certificate has to last, in days. */
  doctorClockMs: 2_000,
  doctorTlsDays: 14,
  /** Free space below which it warns, in bytes. */
  doctorFreeBytesMin: 2 * 1024 * 1024 * 1024,
  /** How long a door may take to answer, in ms. */
  doctorAnswerMs: 5_000,

  /** A line that a client of `mcp` sends, in bytes; calls that run at one time, and lines that wait for their answer. */
  mcpLineBytesMax: 1024 * 1024,
  mcpCallsMax: 8,
  mcpPendingMax: 64,
  /** How long a call may take, one statement of it, and what still runs when the client is gone, in ms; how long `wait` waits, in seconds. */
  mcpCallMs: 90_000,
  mcpStatementMs: 10_000,
  mcpEndMs: 5_000,
  mcpWaitS: 60,
  mcpWaitDefaultS: 30,
  /** Rows of a tool, of `query` and `traffic`, and ids that one call may name. */
  mcpRowsMax: 50,
  mcpQueryRowsMax: 200,
  mcpIdsMax: 100,
  /** Characters of an answer, of one value, and of the arguments in the log; bytes of a refused body. */
  mcpAnswerCharsMax: 256 * 1024,
  mcpValueCharsMax: 8_192,
  mcpLoggedCharsMax: 200,
  mcpBodyBytesMax: 2_048,

  /** Lines of history that the prompt keeps. */
  promptHistoryMax: 1_000,
  /** Characters of one cell that the prompt shows. */
  promptCellCharsMax: 500,
} as const;
