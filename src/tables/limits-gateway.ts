/** The bounds of the events gateway and of `headgate send`; a part of `limits` (limits.ts). */
export const gatewayLimits = {
  /** Largest body of POST /v1/events, before and after decompression, in bytes. */
  eventsBodyBytesMax: 100 * 1024 * 1024,
  /** Request targets of POST /v1/events that are remembered as they were read. */
  eventsTargetsMax: 1_000,
  /** Short answers that are kept as they are written. */
  gatewayRepliesMax: 1_000,
  /** A body up to this size goes through a lane, with those of others; a larger one in a transaction of its own. */
  eventsLaneBytesMax: 1024 * 1024,
  /** One event, in bytes. */
  eventsLineBytesMax: 16 * 1024 * 1024,
  /** What one statement of such a transaction takes, in bytes. */
  eventsChunkBytesMax: 512 * 1024,
  /** Such transactions at one time. */
  eventsStreamsMax: 4,
  /** How long the next one waits while a statement of another is at the engine, in ms. */
  eventsTurnMs: 500,
  /** Longest pause between two parts of a body that is being sent, in ms. */
  eventsPauseMs: 30_000,
  /** From the first byte of a body to its last, in ms. */
  eventsUploadMs: 300_000,
  /** From the last byte of a body to the answer, in ms. */
  eventsDeadlineMs: 30_000,
  /** Lines that on_error=skip lists; those beyond are counted. */
  eventsSkippedMax: 1_000,
  /** Bodies of the events gateway that are held in memory at one time, in bytes. */
  gatewayBodiesBytesMax: 128 * 1024 * 1024,
  /** Connections for rows that go to a RisingWave, per database: so many of its tables are written at one time. */
  risingwaveConnectionsMax: 8,
  /** Other servers that rows of tables go to, of which connections are kept. */
  intoServersMax: 32,
  /** What such a server may send from one question to the next, in bytes, and messages; eight times as much as an INSERT or VALUES holds comes to that. */
  intoAnswerBytesMax: 2 * 1024 * 1024,
  intoAnswerMessagesMax: 10_000,
  /** From the last byte of a request whose row goes there to its answer, in ms: a checkpoint is due every second. */
  intoDeadlineMs: 8_000,
  /** How long a group of the spool may take there, in ms; nobody waits for it. */
  intoHandOverMs: 60_000,
  /** Parameters of one statement there: it reads their number with a sign. */
  risingwaveParamsMax: 32_767,
  /** Rows of one INSERT into RisingWave: each waits for a checkpoint, whatever it holds. */
  risingwaveGroupRowsMax: 8_192,
  /** What such an INSERT may take before its groups become smaller, in ms; a checkpoint is due every second. */
  risingwaveGroupTargetMs: 5_000,
  /** Requests of the events gateway at one time. */
  gatewayRequestsMax: 1_000,
  /** Connections of the events gateway; one more is closed as it arrives. */
  gatewayConnectionsMax: 10_000,
  /** Largest body of POST /v1/sql, in bytes. */
  gatewaySqlBytesMax: 16 * 1024 * 1024,
  /** Parameters of one statement. PostgreSQL's own bound. */
  gatewaySqlParamsMax: 65_535,
  /** Largest result of POST /v1/sql, both as it comes from the engine and as JSON, in bytes. */
  gatewayResultBytesMax: 64 * 1024 * 1024,
  /** A result beyond this is read from the engine when no other such one is, in bytes. */
  gatewayLargeResultBytes: 2 * 1024 * 1024,
  /** All results that are being read or sent at one time, in bytes. */
  gatewayResultsBytesMax: 128 * 1024 * 1024,
  /** What a result may take of that before it counts as one of the few that are far larger than others, in bytes. */
  gatewayResultShareBytes: 16 * 1024 * 1024,
  /** What those few may take beyond it, together, in bytes: the rest stays for everybody. */
  gatewayResultSharesBytesMax: 64 * 1024 * 1024,
  /** Room that there is for results before more of one is read from the engine, in bytes. */
  gatewayResultRoomBytes: 4 * 1024 * 1024,
  /** How long a result waits for that room, in ms. */
  gatewayResultRoomMs: 5_000,
  /** How long its reader may read nothing of a result, in ms. */
  gatewayReadPauseMs: 30_000,
  /** How fast its reader has to read a result on the whole, in bytes per second. */
  gatewayReadBytesPerSecondMin: 128 * 1024,
  /** How long one request of POST /v1/sql may run, in ms. */
  gatewaySqlTimeoutMs: 30_000,
  /** How long a cancelled statement may take to end before its connection is cut off, in ms. */
  gatewayCancelMs: 1_000,
  /** Connections for POST /v1/sql, per database. */
  gatewaySqlConnectionsMax: 8,
  /** Connections on which the embedded engine is asked for databases and the gateway's role. */
  gatewayRoleConnectionsMax: 2,
  /** How long a database may take to let that role in: it grants on every table once, in ms. */
  gatewayRoleAnswerMs: 60_000,
  /** How long the first request waits there for transactions that may be making tables, in ms; longer ones are looked for again. */
  gatewayRoleWaitMs: 1_000,
  /** Requests that may wait for one of them, per database. */
  gatewaySqlWaitingMax: 256,
  /** How long they wait, in ms. */
  gatewaySqlWaitMs: 5_000,
  /** Notices of one request that its answer tells. */
  gatewayNoticesMax: 100,
  /** Names of types that are remembered, per database. */
  gatewayTypesMax: 10_000,
  /** Tables of one token of CREATE TOKEN. */
  tokenTablesMax: 32,
  /** Origins of one … */
  tokenOriginsMax: 16,
  /** … and what one of them has at most, in characters; a longer Origin of a request is nobody's. */
  originCharsMax: 255,
  /** Rate of one, in characters. */
  tokenRateCharsMax: 63,
  /** Requests whose tokens the database is asked about in one question. */
  tokensAskedMax: 256,
  /** A token is asked about again when its body took longer than this to arrive, in ms. */
  tokenAgeMs: 500,
  /** Tokens whose rates are kept. */
  tokenRatesMax: 10_000,
  /** Streams of rows (GET /v1/events) at one time, … */
  streamsMax: 100,
  /** … and tables that they follow. */
  streamTablesMax: 32,
  /** How often the end of a table is looked at for new rows while somebody waits for them, in ms. */
  streamLookMs: 100,
  /** How long the rest of a table is let alone after a piece of it was read, in times of what that took. */
  streamRestTimes: 10,
  /** What is read of a table in one statement, in blocks, and in bytes of rows before it pauses. */
  streamChunkBlocksMax: 1_024,
  streamPageBytes: 256 * 1024,
  /** How far before the end of a table's file new rows are looked for often, in blocks. */
  streamTailBlocks: 256,
  /** Rows that are asked for at once before anything is known of their size. */
  streamRowsMax: 1_024,
  /** What may come for a page, in bytes: a row that is larger cannot be streamed. */
  streamReceivedBytesMax: 20 * 1024 * 1024,
  /** A piece of a stream beyond this takes its room among that of all results, in bytes. */
  streamLargeBytes: 1024 * 1024,
  /** Looks that are remembered while a transaction stays open. */
  streamLooksMax: 64,
  /** Parts of a table that are known to be read differently far, before neighbours are read as far as each other. */
  streamPartsMax: 8,
  /** Rows of one table that are held for the slower of its readers, in bytes; who is further behind reads the table. */
  streamHeldBytesMax: 4 * 1024 * 1024,
  /** Readers that read the table by themselves at one time. */
  streamCatchUpsMax: 2,
  /** How long one page of such a reader keeps the next one waiting, in ms. */
  streamPageMs: 5_000,
  /** Silence in a stream before a comment, in ms. */
  streamKeepAliveMs: 15_000,
  /** How long what was committed may take to be on the disk before a look is given up, how often that is asked, and when it is asked for, in ms. */
  streamFlushMs: 5_000,
  streamFlushPauseMs: 20,
  streamFlushAskMs: 100,
  /** Longest pause before a database that is away is asked again, in ms. */
  streamRetryMs: 5_000,
  /** Length of a position, in characters. */
  streamPositionCharsMax: 2_560,
  /** When a stream has ended its reader comes again, in ms. */
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
  /** … and how long it waits before it asks a hub again that has refused, at first and at most, in ms. */
  websubRetryMinMs: 60_000,
  websubRetryMs: 60 * 60 * 1_000,
} as const;
