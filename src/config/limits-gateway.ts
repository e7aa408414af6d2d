/** The bounds of the events gateway and of `headgate send`; a part of `limits` (limits.ts). */
export const gatewayLimits = {
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
} as const;
