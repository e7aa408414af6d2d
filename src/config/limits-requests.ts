/** The bounds of requests: bodies, documents, batches, WebSockets; a part of `limits` (limits.ts). */
export const requestLimits = {
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
  /** From a request's last byte to its answer, in ms; beyond that the sender gets 503. */
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
} as const;
