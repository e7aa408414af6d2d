/**
 * Every bound of Headgate in one place: name, value, unit last. A bound that a user may move is also a
 * setting (settings.ts) whose default stands here; crossing any of them is a refusal from refusals.ts.
 */
import { operatorLimits } from './limits-operator.ts';

export const limits = {
  /** Largest request body, before and after decompression, in bytes. */
  bodyBytesMax: 25 * 1024 * 1024,
  /** Bytes of all request bodies that are being read, checked or committed at one time. */
  bodiesInFlightBytesMax: 256 * 1024 * 1024,
  /** Pieces that a body may come in (chunks, or segments as they were sent): so many … */
  bodyPiecesMax: 4_096,
  /** … and one more for each so many bytes of it. */
  bodyPieceBytes: 64,
  /** Size of a request's header section, in bytes. */
  headersBytesMax: 16 * 1024,
  /** Number of header lines of a request. */
  headersCountMax: 200,
  /** From the first byte of a request to the last of its headers, in ms. */
  headersTimeoutMs: 10_000,
  /** From the first byte of a request to the last of its body, in ms. */
  requestTimeoutMs: 30_000,
  /** How long an idle keep-alive connection stays open, in ms. Longer than common proxies keep theirs. */
  keepAliveTimeoutMs: 75_000,
  /** Connections of the webhook listener; one more is closed as it arrives. */
  listenConnectionsMax: 20_000,
  /** Requests of one connection that are not answered, or whose answers are not read; one more is the last. */
  pipelinedRequestsMax: 16,
  /** Of them, those that are begun before others get their turn. */
  pipelinedPerTurnMax: 256,
  /** Length of a request target, that is path and query, in bytes. */
  targetBytesMax: 8 * 1024,
  /** What a request in flight is counted as besides its body, in bytes: bounds how many there are. */
  requestCostBytes: 2 * 1024,
  /** From this size on what is done with whole bodies is done for one of them at a time, with rests between, in bytes. */
  spacedBodyBytes: 1024 * 1024,
  /** Body left unread behind an early answer that is still read away to keep the connection, in bytes. */
  unreadBodyBytesMax: 64 * 1024,
  /** How long a closed connection is still read, so that its sender gets to the answer, in ms. */
  lingerMs: 2_000,
  /** How much of it is read away meanwhile, in bytes. */
  lingerBytesMax: 8 * 1024 * 1024,
  /** Ends of connections that are dealt with before others get their turn; what comes of one takes up to 0.1 ms. */
  endingsPerTurnMax: 32,
  /** Longest `Retry-After`, in seconds; the shortest is 1. */
  retryAfterSecondsMax: 5,
  /** Nesting of arrays and objects in one JSON document. */
  jsonDepthMax: 512,
  /** From a request's last byte to its answer, in ms; past it the sender reads 503. */
  ackDeadlineMs: 2_500,
  /** Rows of one request, that is lines of a batch. */
  batchRowsMax: 1_000_000,
  /** What a batch may take beyond `ackDeadlineMs` for each of its rows, in µs: 25 s for a million … */
  batchRowPatienceUs: 25,
  /** … and for each MiB of them, in ms. */
  batchMiBPatienceMs: 50,
  /** What the rows of one request may have more than its body, as INCLUDE columns are repeated in each, in bytes. */
  decodeGrowthBytesMax: 64 * 1024 * 1024,
  /** Fields of one form. */
  formFieldsMax: 10_000,
  /** What is read of a batch before other requests get their turn, in bytes of it and of its rows. */
  decodeSliceBytes: 512 * 1024,
  /** What the numbers of one document may be longer when they are written without exponents, in bytes. */
  jsonNumberGrowthBytesMax: 16 * 1024 * 1024,
  /** Squares of the numbers of members of large JSON objects, added up over one body: one object may have 31,622. */
  jsonMembersSquaredMax: 1_000_000_000,
  /** Lines that are told to have been left out of one request; the others are counted. */
  skippedLinesMax: 1_000,

  /** Bodies with a Content-Encoding that are decompressed at one time: each holds a thread of four. */
  inflationsMax: 3,
  /** Bodies that wait for their turn to be decompressed; one more is refused. */
  inflationsWaitingMax: 64,
  /** Codings in one Content-Encoding. */
  contentCodingsMax: 2,

  /** Largest message of a WebSocket, that is one batch, in bytes. */
  websocketMessageBytesMax: 16 * 1024 * 1024,
  /** Items of one batch of a WebSocket. */
  websocketItemsMax: 200_000,
  /** Largest first message, before its sender is known, in bytes. */
  websocketInitBytesMax: 64 * 1024,
  /** From the handshake to the first message, in ms. */
  websocketInitTimeoutMs: 10_000,
  /** How far the clock of a WebSocket's sender may be from ours, in ms. */
  websocketSkewMs: 300_000,
  /** From the first byte of a message to its last, in ms. */
  websocketMessageTimeoutMs: 30_000,
  /** Frames of one message. */
  websocketFragmentsMax: 4_096,
  /** Pieces in which one message may come from the network. */
  websocketPiecesMax: 16_384,
  /** Batches of one WebSocket that are not acknowledged; beyond them it is not read. */
  websocketUnackedMax: 256,
  /** Bytes of one WebSocket that are not acknowledged; beyond them it is not read. */
  websocketUnackedBytesMax: 32 * 1024 * 1024,
  /** Bytes of acknowledgements that a client has not read; beyond them it is not read. */
  websocketUnreadBytesMax: 64 * 1024,
  /** How often a silent WebSocket is asked for a sign of life, in ms; one that gives none until the next time is closed. */
  websocketPingMs: 30_000,
  /** How long one batch of a WebSocket is tried again while nothing is stored, in ms. */
  streamPatienceMs: 30_000,
  /** Longest pause between two such attempts, in ms. */
  streamRetryMs: 500,
  /** Shortest pause between two such attempts, in ms. */
  streamRetryMinMs: 10,

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
  /** Engine connections that commit groups, per database. Also how many tables commit at one time. */
  commitConnectionsMax: 8,
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
  /** How often the catalog is compared with the engine where notifications may be missing, in ms. */
  catalogPollIntervalMs: 700,
  /** How often the catalog is compared where the engine tells of changes: also finds a connection that is dead, in ms. */
  catalogHeartbeatMs: 5_000,
  /** How long a database that is about to be dropped or renamed is left alone, in ms. */
  catalogHoldMs: 5_000,
  /** Longest wait for the catalog on behalf of one request, in ms; past it the sender reads 503. */
  catalogWaitMs: 2_000,
  /** Relations that the events gateway remembers, per database. */
  relationsMax: 1_000,
  /** How long it believes that a name means the relation that it meant, in ms. */
  relationAgeMs: 5_000,

  /** Length of one VALIDATE expression, in characters. */
  expressionCharsMax: 16_384,
  /** Nesting of one VALIDATE expression. */
  expressionDepthMax: 200,
  /** Digits of a numeric that a VALIDATE expression computes with. */
  expressionDigitsMax: 1_000,
  /** Items of a list that a VALIDATE expression compares with, e.g. signatures in one header. */
  expressionListItemsMax: 1_000,
  /** Fields of a form that a VALIDATE expression reads. */
  expressionFormFieldsMax: 10_000,
  /** What a VALIDATE expression takes out of a JSON document as text, and what it compares as JSON, in characters. */
  expressionJsonCharsMax: 1024 * 1024,
  /** Largest value a VALIDATE expression may compute, as a multiple of the request body … */
  expressionValueBodiesMax: 8,
  /** … plus this many bytes. */
  expressionValueBytesMax: 64 * 1024 * 1024,
  /** What all steps of a VALIDATE expression together may read and write, as a multiple of the request body … */
  expressionWorkBodiesMax: 256,
  /** … plus this many bytes. */
  expressionWorkBytesMax: 1024 * 1024 * 1024,
  /** Steps that EXPLAIN VALIDATE shows of one expression. */
  explainStepsMax: 1_000,
  /** What it shows of one value, and of the text of one step, in characters. */
  explainTextCharsMax: 1_000,
  /** Tables of one name, in several schemas, that one EXPLAIN VALIDATE evaluates. */
  explainTablesMax: 16,
  /** Master keys that are known at one time: one, and those that it replaces. */
  masterKeysMax: 8,
  /** How long the rotation of the master key waits for transactions that have changed secrets, in ms. */
  rotationLockMs: 10_000,
  /** Length of one secret, in bytes. */
  secretBytesMax: 64 * 1024,

  /** What is kept of the body of a refused request, in bytes. */
  rejectedBodyBytesMax: 64 * 1024,
  /** What is kept of the reason, in characters. */
  rejectedReasonCharsMax: 1_000,
  /** Refused requests of one database that wait to be written; one more is counted and forgotten. */
  rejectedWaitingMax: 1_000,
  /** Bytes of them. */
  rejectedWaitingBytesMax: 8 * 1024 * 1024,
  /** Refused requests of one table that are kept in a row … */
  rejectedBurst: 100,
  /** … and then per second, so that a flood fills neither the disk nor the log. */
  rejectedPerSecond: 10,
  /** Tables whose rates are kept apart. */
  rejectedTablesMax: 1_000,
  /** Refused requests in one statement. */
  rejectedBatchRowsMax: 64,
  /** Bytes of them. */
  rejectedBatchBytesMax: 1024 * 1024,
  /** Rows of headgate.rejected_requests, per database. */
  rejectedRowsMax: 10_000,
  /** What the bodies in it may take together, in bytes. */
  rejectedBytesMax: 256 * 1024 * 1024,
  /** How long they are kept, in days. */
  rejectedDays: 7,
  /** Longest pause between two looks for rows that are too old, in ms. */
  rejectedTrimMs: 600_000,
  /** How long one statement for them may take, in ms. */
  rejectedStatementMs: 5_000,
  /** Pause between two looks for retries where the engine does not tell of them, in ms. */
  rejectedHeartbeatMs: 5_000,
  /** Retries that run at one time, per database. */
  rejectedRetriesMax: 64,

  /** Client connections of the SQL door. */
  sqlConnectionsMax: 200,
  /** Size of a start-up packet of the SQL door, in bytes. PostgreSQL's own bound. */
  sqlStartupBytesMax: 10_000,
  /** From connecting to the end of authentication, in ms. */
  sqlStartupTimeoutMs: 60_000,
  /** Largest Query or Parse message that is searched for Headgate's statements; larger ones pass unread. */
  sqlStatementBytesMax: 16 * 1024 * 1024,
  /** Largest message of a client that has not yet authenticated, in bytes. */
  sqlAuthMessageBytesMax: 64 * 1024,
  /** Bytes waiting towards one peer of a relayed connection before the other side is paused. */
  sqlRelayBufferBytesMax: 1024 * 1024,
  /** Connections of the SQL door that have not yet said whom they want, beside `sqlConnectionsMax`. */
  sqlOpeningsMax: 256,
  /** Messages of one SQL client that the engine has not answered; past it the client is paused. */
  sqlOutstandingMax: 65_536,
  /** Prepared statements of one SQL client whose command tag Headgate puts back. */
  sqlRewrittenStatementsMax: 1_024,
  /** Largest error, notice or parameter status of the engine that is looked at, in bytes; larger ones pass unread. */
  sqlNoticeBytesMax: 1024 * 1024,
  /** Engine connections that passwords of clients of the SQL door are looked up on. */
  sqlPasswordConnectionsMax: 2,
  /** How long a client may take to read the door's last message, in ms. */
  sqlLingerMs: 2_000,

  /** Addresses (of IPv6: networks) whose requests are counted for a rate; the one seen longest ago is forgotten. */
  rateAddressesMax: 65_536,
  /** Tables whose requests are counted for a rate. */
  rateTablesMax: 16_384,
  /** Names whose requests one listener process tells the others of at one time. */
  rateToldNamesMax: 4_096,
  /** How often listener processes tell each other of them, in ms. */
  rateToldMs: 100,
  /** How often the files of TLS certificates are compared with what is in use, in ms. */
  tlsPollMs: 5_000,
  /** Largest body of POST /v1/events, before and after decompression, in bytes. */
  eventsBodyBytesMax: 100 * 1024 * 1024,
  /** Request targets of POST /v1/events that are remembered as they were read. */
  eventsTargetsMax: 1_000,
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
  /** How long one request of POST /v1/sql may run, in ms. */
  gatewaySqlTimeoutMs: 30_000,
  /** How long a cancelled statement may take to end before its connection is cut off, in ms. */
  gatewayCancelMs: 1_000,
  /** Connections for POST /v1/sql, per database. */
  gatewaySqlConnectionsMax: 8,
  /** Requests that may wait for one of them, per database. */
  gatewaySqlWaitingMax: 256,
  /** How long they wait, in ms. */
  gatewaySqlWaitMs: 5_000,
  /** Notices of one request that its answer tells. */
  gatewayNoticesMax: 100,
  /** Names of types that are remembered, per database. */
  gatewayTypesMax: 10_000,
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

  /** Tables with metrics of their own; those beyond are counted together as `other`. */
  metricTablesMax: 1_000,

  ...operatorLimits,

  /** Listener processes that there are by cores at most, however many there are of those. */
  listenersMax: 4,
  /** Memory of the machine for each of them then, in bytes. */
  listenerMemoryBytes: 512 * 1024 * 1024,
  /** Commit connections of each, per database, at least. */
  listenerCommitConnectionsMin: 2,
  /** How often a listener process is asked for its figures and a sign of life, in ms … */
  listenerBeatMs: 2_000,
  /** … and how many it may miss in a row before it is ended and started anew. */
  listenerBeatsMissedMax: 15,
  /** How long one question to a listener process may take, in ms. */
  listenerAnswerMs: 1_000,
  /** First and longest pause before a listener process that ended is started again, in ms. */
  listenerBackoffMinMs: 50,
  listenerBackoffMs: 5_000,
  /**
   * How long the transactions of a listener process that was killed are waited for before streams are opened, in ms: longer
   * than their statements may take (`commitStatementTimeoutMs`).
   */
  listenerLeftMs: 5_000,
  /** Observations of one listener process that wait to be told; those beyond are counted and forgotten. */
  listenerSaidMax: 10_000,

  /** From SIGTERM to the end of the process, in ms. */
  drainMs: 10_000,
  /** How long idle connections of the webhook listener are kept then, for what is on its way on them, in ms. */
  drainIdleMs: 200,
  /** How long the embedded engine may take to accept its first connection, in ms. */
  engineStartMs: 30_000,
  /** Longest pause between two attempts to start or reach the engine, in ms: so long an outage goes on after its end. */
  engineBackoffMs: 1_000,
  /** First pause between two such attempts, in ms; each further one doubles it up to `engineBackoffMs`. */
  engineBackoffMinMs: 50,
  /** How long the embedded engine may take for a clean stop before its sessions are cut off, in ms. */
  engineStopMs: 6_000,
  /** How long one connection to the engine, or one sign of life on it, may take, in ms. */
  engineAnswerMs: 5_000,
  /** How long the servers before one that can be used may take to say that they can, in ms. */
  engineChoiceMs: 250,
  /** How long a connection to the engine may take to end in good order, in ms. */
  engineFarewellMs: 1_000,
  /** Pause between two signs of life on the supervising connection, in ms. */
  engineHeartbeatMs: 5_000,
  /** Connections of the embedded engine: beside `sqlConnectionsMax` there are some left for Headgate's own at any time. */
  engineConnectionsMax: 300,
  /** One line of the embedded engine's log, in characters; the rest of a longer line is left out. */
  engineLogLineCharsMax: 2_000,
  /** Segments of the embedded engine's log that are made ahead, while this much disk is free, and how often is looked, in ms. */
  engineLogAheadMax: 8,
  engineLogAheadFreeBytes: 1024 * 1024 * 1024,
  engineLogLookMs: 1_000,
  /** How long the claims of two Headgates that start on one data directory may take to settle, in ms. */
  dataDirLockMs: 3_000,
} as const;

export type Limits = { readonly [name in keyof typeof limits]: number };
