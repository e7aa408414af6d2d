/** The bounds of VALIDATE, secrets and the record of refused requests; a part of `limits` (limits.ts). */
export const checkLimits = {
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

  /** Tables of one database whose requests one process counts by minute. */
  trafficTablesMax: 1_000,
  /** Minutes of tables that wait to be written while the database is unreachable; the oldest are dropped. */
  trafficWaitingMax: 20_000,
  /** Pause between two writes of them, in ms. */
  trafficFlushMs: 10_000,
} as const;
