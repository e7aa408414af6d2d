/** The bounds of commands that talk to a Headgate from a terminal; a part of `limits` (limits.ts). */
export const commandLimits = {
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
  /** After how many unanswered requests in a row the receiver is taken to be gone. */
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
