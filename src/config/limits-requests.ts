/** The bounds of the way of a request, from its first byte to its row; a part of `limits` (limits.ts). */
export const requestLimits = {
  // Requests: bodies, documents, batches, WebSockets.
  /** Largest request body, before and after decompression, in bytes. */
  bodyBytesMax: 25 * 1024 * 1024,
  /** Bytes of all request bodies that are being read, checked or committed at one time; two of the largest that a setting allows always fit. */
  bodiesInFlightBytesMax: 128 * 1024 * 1024,
  /** Pieces in which a body may arrive (chunks, or segments as they were sent): this many … */
  bodyPiecesMax: 4_096,
  /** … and one more for each of this many bytes: a chunk costs a µs, of the bytes on the wire a sixth of what requests cost. */
  bodyPieceBytes: 8,
  /** Size of a request's header section, in bytes. */
  headersBytesMax: 16 * 1024,
  /** Number of header lines of a request. */
  headersCountMax: 200,
  /** From the first byte of a request to the last of its headers, in ms. */
  headersTimeoutMs: 10_000,
  /** From the first byte of a request to the last of its body, in ms. */
  requestTimeoutMs: 30_000,
  /** How long an idle keep-alive connection stays open, in ms, unless HEADGATE_KEEP_ALIVE_SECONDS says otherwise. Longer than common proxies keep theirs. */
  keepAliveTimeoutMs: 75_000,
  /** Connections of the webhook listener; further ones are closed as they arrive. */
  listenConnectionsMax: 20_000,
  /** Requests of one connection that are not answered, or whose answers are not read; the next one is the last. */
  pipelinedRequestsMax: 16,
  /** Pipelined requests that are begun in one turn of the event loop, before others get their turn. */
  pipelinedPerTurnMax: 256,
  /** Largest request that Headgate parses itself, head and body apart; larger ones are parsed by Node … */
  fastHeadBytesMax: 8 * 1024,
  fastBodyBytesMax: 64 * 1024,
  /** … and so are requests that arrive in more pieces … */
  fastPiecesMax: 32,
  /** … or have not arrived completely after one or two times this, in ms, or while this many bytes wait for their end. */
  fastHoldMs: 50,
  fastHeldBytesMax: 8 * 1024 * 1024,
  /** Length of a request target, which is path and query, in bytes. */
  targetBytesMax: 8 * 1024,
  /** Request targets whose table is remembered. */
  targetsKnownMax: 16_384,
  /** What a request in flight counts besides its body, in bytes: bounds their number. */
  requestCostBytes: 2 * 1024,
  /** From this size on, work on whole bodies is done for one body at a time, with rests in between, in bytes. */
  spacedBodyBytes: 1024 * 1024,
  /** Unread body after an early answer that is still read, to keep the connection, in bytes. */
  unreadBodyBytesMax: 64 * 1024,
  /** How long a closed connection is still read, so that its sender can read the answer, in ms. */
  lingerMs: 2_000,
  /** How much of it is read meanwhile, in bytes. */
  lingerBytesMax: 8 * 1024 * 1024,
  /** Ends of connections that are handled before others get their turn; the consequences of one take up to 0.1 ms. */
  endingsPerTurnMax: 32,
  /** Longest `Retry-After`, in seconds; the shortest is 1. */
  retryAfterSecondsMax: 5,
  /** Nesting of arrays and objects in one JSON document. */
  jsonDepthMax: 512,
  /** From a request's last byte to its answer, in ms; beyond that the sender gets 503. For commits of events gateway/event-lanes.ts puts 30 s in its place. */
  ackDeadlineMs: 2_500,
  /** Rows of one request, which are the lines of a batch. */
  batchRowsMax: 1_000_000,
  /** The time that a batch may take beyond `ackDeadlineMs` for each of its rows, in µs: 25 s for a million … */
  batchRowPatienceUs: 25,
  /** … and for each MiB of them, in ms. */
  batchMiBPatienceMs: 50,
  /** The same for a request that is larger than a group, a single document included: `[1,1,…]` takes up to 100 ms a MiB. */
  largeMiBPatienceMs: 250,
  /** How much larger than its body the rows of one request may be, as INCLUDE columns are repeated in each, in bytes. */
  decodeGrowthBytesMax: 64 * 1024 * 1024,
  /** Fields of one form. */
  formFieldsMax: 10_000,
  /** The head of one part of multipart/form-data, in bytes: the names of its field and of its file. */
  formPartHeadBytesMax: 16 * 1024,
  /** How much of a batch is read before other requests get their turn, in bytes of it and of its rows. */
  decodeSliceBytes: 512 * 1024,
  /** How much longer the numbers of one document may become when they are written without exponents, in bytes. */
  jsonNumberGrowthBytesMax: 16 * 1024 * 1024,
  /** The squares of the member counts of large JSON objects, summed over one body: one object may have 31,622. */
  jsonMembersSquaredMax: 1_000_000_000,
  /** The option `dedupe`, in characters … */
  deliveryIdTextCharsMax: 512,
  /** … and the parts that it may name. */
  deliveryIdPartsMax: 4,
  /** How long a delivery's id is remembered, in s: shortest, longest, and default. */
  dedupeWindowMinS: 60,
  dedupeWindowMaxS: 90 * 86_400,
  dedupeWindowS: 7 * 86_400,
  /** How long the version of a deleted row is remembered at most, in s. */
  versionWindowMaxS: 3_650 * 86_400,
  /** Ids that one statement deletes. */
  deliveriesForgottenMax: 5_000,
  /** How often expired ids are looked for, in ms. */
  deliveriesForgetMs: 60_000,
  /** Keys that are no columns and are remembered per table. */
  ignoredKeysMax: 32,
  /** How often ignored keys are written down for the owners of the tables, in ms. */
  ignoredKeysFlushMs: 5_000,
  /** Keys, and columns, that one refusal names … */
  keysShownMax: 10,
  /** … and how much of each it shows, in characters. */
  keyShownCharsMax: 64,

  /** Bodies with a Content-Encoding that are decompressed at one time: each occupies one of four threads. */
  inflationsMax: 3,
  /** Bodies that wait to be decompressed; further ones are refused. */
  inflationsWaitingMax: 64,
  /** Codings in one Content-Encoding. */
  contentCodingsMax: 2,

  /** Largest message of a WebSocket, which is one batch, in bytes. */
  websocketMessageBytesMax: 16 * 1024 * 1024,
  /** Items of one batch of a WebSocket. */
  websocketItemsMax: 200_000,
  /** Largest first message, before its sender is known, in bytes. */
  websocketInitBytesMax: 64 * 1024,
  /** From the handshake to the first message, in ms. */
  websocketInitTimeoutMs: 10_000,
  /** How far the clock of a WebSocket's sender may differ from Headgate's, in ms. */
  websocketSkewMs: 300_000,
  /** From the first byte of a message to its last, in ms. */
  websocketMessageTimeoutMs: 30_000,
  /** Frames of one message. */
  websocketFragmentsMax: 4_096,
  /** Pieces in which one message may arrive from the network. */
  websocketPiecesMax: 16_384,
  /** Batches of one WebSocket that are not acknowledged; beyond them it is not read. */
  websocketUnackedMax: 256,
  /** Bytes of one WebSocket that are not acknowledged; beyond them it is not read. */
  websocketUnackedBytesMax: 32 * 1024 * 1024,
  /** Bytes of acknowledgements that a client has not read; beyond them Headgate stops reading from it. */
  websocketUnreadBytesMax: 64 * 1024,
  /** How often a silent WebSocket is asked for a sign of life, in ms; one that sends none before the next time is closed. */
  websocketPingMs: 30_000,
  /** How long one batch of a WebSocket is retried while nothing of it is stored, in ms. */
  streamPatienceMs: 30_000,
  /** Longest pause between two such attempts, in ms. */
  streamRetryMs: 500,
  /** Shortest pause between two such attempts, in ms. */
  streamRetryMinMs: 10,

  // ANSWER, handshakes, and what Headgate asks others because of a message.
  /** ANSWER clauses of one table. */
  answersMax: 16,
  /** HEADER clauses of one of them. */
  answerHeadersMax: 8,
  /** Secrets that the ANSWER clauses of one statement name. */
  answerSecretsMax: 8,
  /** Body of an answer, in bytes. */
  answerBodyBytesMax: 512,
  /** Value of one header of an answer, in characters. */
  answerHeaderCharsMax: 256,
  /** Body and own headers of an answer together, in bytes: with the headers of every answer it stays below 1,024. */
  answerOwnBytesMax: 640,
  /** Largest body of a handshake, in bytes; a larger one matches no rule. */
  handshakeBodyBytesMax: 4 * 1024,
  /** Handshakes of one table that are answered per second, counted apart for those that VALIDATE accepted and the others … */
  handshakesPerSecond: 5,
  /** … and at once. */
  handshakesBurst: 20,
  /** Tables with rates of their own. */
  handshakeTablesMax: 1_000,
  /** How long handshakes are answered from the last known catalog while the engine is unreachable, in ms. */
  handshakeStaleMs: 24 * 60 * 60 * 1_000,
  /** Shortest secret that can be learned, in bytes … */
  learnedBytesMin: 16,
  /** … and the shortest and longest time in which it can be, in s. */
  learnWindowMinS: 60,
  learnWindowMaxS: 24 * 60 * 60,
  /** How long learning a secret may take, in ms. */
  learnMs: 5_000,
  /** Names that took longer to resolve, in ms, are looked up one after the other. */
  outgoingLookupMs: 1_000,
  /** One request that Headgate makes because of a message: from the lookup of the name to the last byte, in ms … */
  outgoingMs: 5_000,
  /** … the answer, in bytes … */
  outgoingBytesMax: 16 * 1024,
  /** … what comes besides its body, in bytes: heads, interim answers, what TLS needs … */
  outgoingBesidesBytesMax: 128 * 1024,
  /** … and the number of such requests in an hour … */
  outgoingPerHour: 20,
  /** … and at once; counted apart for certificates and confirmations. */
  outgoingBurst: 5,
  /** The keys of an issuer, as they are published, in bytes … */
  jwksBytesMax: 256 * 1024,
  /** … and their number. */
  jwksKeysMax: 100,
  /** Bits of an RSA key among them (RFC 7518, section 3.3). */
  jwksRsaBitsMin: 2_048,
  /** The longest RSA key of such a set that is used: a longer one would make each request cost much. */
  jwksRsaBitsMax: 8_192,
  /** Issuers whose keys one process keeps; those that were asked for last. */
  jwksKeptMax: 256,
  /** How old keys may be before they are fetched again, in ms … */
  jwksFreshMs: 10 * 60 * 1_000,
  /** … and how old if they cannot be. */
  jwksStaleMs: 24 * 60 * 60 * 1_000,
  /** Pause between two attempts to fetch the keys of one issuer, in ms … */
  jwksPauseMs: 60_000,
  /** … and while there are none. */
  jwksEmptyPauseMs: 5_000,
  /** Confirmations that wait for the previous one. */
  snsConfirmingMax: 8,
  /** Topics of one table. */
  snsTopicsMax: 32,
  /** Largest message of SNS that is parsed, in bytes; SNS sends 256 KiB at most, and escapes it. */
  snsMessageBytesMax: 1024 * 1024,
  /** Largest request of Event Grid in which a validation is looked for, in bytes, and subscriptions of one table. */
  eventGridMessageBytesMax: 64 * 1024,
  eventGridSubscriptionsMax: 32,
  /** Handshakes of one database that wait to be written down; further ones are counted and dropped. */
  handshakesWaitingMax: 256,
  /** Rows of headgate.handshakes, per database. */
  handshakesKeptMax: 1_000,

  // VALIDATE, secrets and the record of refused requests.
  /** Length of one VALIDATE expression, in characters. */
  expressionCharsMax: 16_384,
  /** Nesting of one VALIDATE expression. */
  expressionDepthMax: 200,
  /** Digits of a numeric that a VALIDATE expression computes with. */
  expressionDigitsMax: 1_000,
  /** Items of a list that a VALIDATE expression compares with, e.g. signatures in one header. */
  expressionListItemsMax: 1_000,
  /** By how much a compressed body that a VALIDATE expression reads is taken to be longer than its content, in bytes. */
  expressionEncodedBytesMax: 16 * 1024 * 1024,
  /** Fields of a form that a VALIDATE expression reads. */
  expressionFormFieldsMax: 10_000,
  /** Text that a VALIDATE expression takes out of a JSON document, and JSON that it compares, in characters. */
  expressionJsonCharsMax: 1024 * 1024,
  /** Largest value that a VALIDATE expression may compute, as a multiple of the request body … */
  expressionValueBodiesMax: 8,
  /** … plus this many bytes. */
  expressionValueBytesMax: 64 * 1024 * 1024,
  /** The values of all constant parts of an expression, which are computed when it is read, in bytes. */
  expressionFoldedBytesMax: 32 * 1024 * 1024,
  /** What all steps of a VALIDATE expression together may read and write, as a multiple of the request body … */
  expressionWorkBodiesMax: 256,
  /** … plus this many bytes. */
  expressionWorkBytesMax: 1024 * 1024 * 1024,
  /** What its functions together may read for one request, in bytes: nobody else is served meanwhile … */
  expressionReadBytesMax: 96 * 1024 * 1024,
  /** … where a byte of JSON counts as so many. */
  expressionJsonWeight: 2,
  /** Steps that EXPLAIN VALIDATE shows of one expression. */
  explainStepsMax: 1_000,
  /** What it shows of one value, and of the text of one step, in characters. */
  explainTextCharsMax: 1_000,
  /** Tables of one name, in several schemas, that one EXPLAIN VALIDATE evaluates. */
  explainTablesMax: 16,
  /** Stored requests, and refused ones, that one EXPLAIN ALTER TABLE … OVER judges, newest first … */
  explainOverRequestsMax: 100_000,
  /** … and how long it goes on, in ms. */
  explainOverMs: 120_000,
  /** Requests that it names. */
  explainOverLinesMax: 1_000,
  /** How many of them run at one time; further ones are refused. */
  explainOverAtOnceMax: 2,
  /** Requests that it reads at a time … */
  explainOverPageRowsMax: 500,
  /** … and about how many bytes of them. */
  explainOverPageBytesMax: 4 * 1024 * 1024,
  /** How long it judges before others get their turn, in ms. */
  explainOverTurnMs: 5,
  /** Master keys known at one time: the current one, and those that it replaces. */
  masterKeysMax: 8,
  /** How long the rotation of the master key waits for transactions that have changed secrets, in ms. */
  rotationLockMs: 10_000,
  /** Length of one secret, in bytes. */
  secretBytesMax: 64 * 1024,
  /** Secrets of one VALIDATE clause; the catalog has the same bound. */
  validateSecretsMax: 64,

  /** How much of the body of a refused request is kept, in bytes. */
  rejectedBodyBytesMax: 64 * 1024,
  /** The same of a request that a VALIDATE had accepted: its owner may want to retry it, which takes all of it. */
  rejectedAuthenticBodyBytesMax: 1024 * 1024,
  /** How much of the reason is kept, in characters. */
  rejectedReasonCharsMax: 1_000,
  /** Refused requests of one database whose check is evaluated again in a row, to tell why … */
  rejectedExplainedBurst: 50,
  /** … and then per second. */
  rejectedExplainedPerSecond: 10,
  /** Refused requests of one database that wait to be written; further ones are counted and dropped. */
  rejectedWaitingMax: 1_000,
  /** Bytes of them. */
  rejectedWaitingBytesMax: 8 * 1024 * 1024,
  /** Refused requests of one table that are kept in a row … */
  rejectedBurst: 100,
  /** … of those that VALIDATE had accepted, counted apart … */
  rejectedAuthenticBurst: 1_000,
  /** … and then per second, so that a flood fills neither the disk nor the log. */
  rejectedPerSecond: 10,
  /** Tables with rates of their own. */
  rejectedTablesMax: 1_000,
  /** Refused requests in one statement. */
  rejectedBatchRowsMax: 64,
  /** Bytes of them. */
  rejectedBatchBytesMax: 1024 * 1024,
  /** Requests of one table with the id of another delivery that wait to be kept; the next ones are answered 503. */
  apartWaitingMax: 64,
  /** Rows of headgate.rejected_requests, per database. */
  rejectedRowsMax: 10_000,
  /** Size of all bodies in it, in bytes. */
  rejectedBytesMax: 256 * 1024 * 1024,
  /** How long they are kept, in days. */
  rejectedDays: 7,
  /** Longest pause between two looks for rows that are too old, in ms. */
  rejectedTrimMs: 600_000,
  /** How long one statement for them may take, in ms. */
  rejectedStatementMs: 5_000,
  /** Pause between two looks for retries if the engine does not notify of them, in ms. */
  rejectedHeartbeatMs: 5_000,
  /** Retries that run at one time, per database. */
  rejectedRetriesMax: 64,
  /** Bytes of their bodies; one larger body goes alone. */
  rejectedRetriedBytesMax: 8 * 1024 * 1024,

  /** Tables of one database whose requests one process counts by minute. */
  trafficTablesMax: 1_000,
  /** Minutes of tables that wait to be written while the database is unreachable; the oldest are dropped. */
  trafficWaitingMax: 20_000,
  /** Pause between two writes of them, in ms. */
  trafficFlushMs: 10_000,

  // Lanes, groups and the catalog.
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
  /** Members of a group about whose values it is asked at one time … */
  groupProbedMembersMax: 16,
  /** … and bytes of them, but for the first. */
  groupProbedBytesMax: 64 * 1024,
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
  /**
   * How long a database that is about to be dropped, renamed or copied is left alone, in ms: until PostgreSQL has begun with it. From then on connections
   * to it wait for the statement, and are not in its way.
   */
  catalogHoldMs: 1_000,
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

  // The spool.
  /** Records that one flush of the disk makes durable. */
  spoolGroupRecordsMax: 2_048,
  /** Bytes of them; a larger record goes alone. */
  spoolGroupBytesMax: 8 * 1024 * 1024,
  /** Requests of one table that are sealed together, and that are lost together if the disk damages one of them … */
  spoolSealedRequestsMax: 32,
  /** … and bytes of them; a larger request is sealed alone. */
  spoolSealedBytesMax: 16 * 1024,
  /** Bytes of records that wait for the flush before theirs to end; one table may use at most what the others leave. */
  spoolWaitingBytesMax: 64 * 1024 * 1024,
  /**
   * The tables of one owner may have this many times as many bytes as are still free for all requests, three quarters if they are alone; and one
   * table this many times as many as its owner's tables may still take.
   */
  spoolShare: 3,
  /** How long the count of bytes in the files is trusted, in ms … */
  spoolUsedMs: 100,
  /** … and up to how many more bytes. */
  spoolUsedBytes: 1024 * 1024,
  /** A second failure of the disk within this time, in ms, ends the spool until the next start. */
  spoolFailuresWithinMs: 60_000,
  /** How long after a segment could not be made, because the disk is full, another is tried, in ms. */
  spoolMakeAgainMs: 1_000,
  /** How much of a segment is read at one time, in bytes. */
  spoolReadBytes: 128 * 1024,
  /** Bytes of one segment; smaller if the spool could have fewer than eight of them. */
  spoolSegmentBytes: 64 * 1024 * 1024,
  /** How much larger than its body a record may be, in bytes: headers, and the description of its table. */
  spoolRecordExtraBytes: 1024 * 1024,
  /** How long the first request that finds the database unreachable waits for it before the table spools, in ms. */
  spoolAfterMs: 500,
  /** How long a request that the database does not take waits for the spool to be opened, in ms. */
  spoolOpenedMs: 2_000,
  /** How long requests wait while the last ones from the disk are handed over, in ms; after that they go to the disk, too. */
  spoolEmptyingMs: 2_000,
  /** Rows that are handed over in one transaction, … */
  spoolDrainRowsMax: 16_384,
  /** … and while requests of other tables are committed. */
  spoolGentleRowsMax: 1_024,
  /** The rest of the hand-over after such a group, as a multiple of the time that it took … */
  spoolGentleRests: 3,
  /** … but no longer than this, in ms; */
  spoolGentleRestMaxMs: 500,
  /** this holds as long as, checked at this interval, in ms, … */
  spoolGentleLookMs: 1_000,
  /** … this many times as many requests were handed over as have arrived. */
  spoolGentleLead: 2,
  /** Bytes of requests, of all tables together, that are read ahead of the hand-over. */
  spoolDrainBytesMax: 32 * 1024 * 1024,
  /** Shortest pause before a failed hand-over is tried again, in ms. */
  spoolRetryMinMs: 100,
  /** Longest such pause, in ms. */
  spoolRetryMs: 5_000,
  /** How long a request that the database takes too long for is tried alone before it is skipped, in ms. */
  spoolSlowMs: 60_000,
  /** How many times a request is tried while its table keeps changing during the hand-over. */
  spoolChangedMax: 3,
  /** How often what is known of the tables is written to disk, for a start without the database, in ms. */
  spoolSnapshotMs: 20_000,
  /** The wait that a sender is told when the spool is full, in seconds. */
  spoolFullRetrySeconds: 30,
} as const;
