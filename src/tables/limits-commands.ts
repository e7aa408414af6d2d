/** The bounds of commands that speak to a Headgate from a terminal; a part of `limits` (limits.ts). */
export const commandLimits = {
  /** How long connecting, and a question of a command's own, may take, in ms. */
  commandConnectMs: 10_000,
  /** Rows that are read at one time. */
  commandRowsMax: 200,
  /** Files that a command reads whole: profiles, positions, in bytes. */
  commandFileBytesMax: 1024 * 1024,

  /** What may come for one page of rows that are followed, in bytes: the largest body, twice. */
  listenReceivedBytesMax: 384 * 1024 * 1024,
  /** How often `listen` looks, in ms, and how many times as long as looking took it rests at least. */
  listenPauseMs: 250,
  listenRestTimes: 10,
  /** The longest pause before what did not answer is tried again, in ms. */
  listenRetryMs: 5_000,
  /** Characters of an answer's body that are shown. */
  listenShownCharsMax: 200,

  /** Requests that `replay` begins in a second where none is named, and at most. */
  replayRate: 50,
  replayRateMax: 10_000,
  /** So many without an answer one after the other, and nobody is there. */
  replayFailuresMax: 10,

  /** What one row group of a Parquet file is made of: rows, and characters as PostgreSQL writes them, one look more at most. */
  parquetGroupRowsMax: 100_000,
  parquetGroupCharsMax: 32 * 1024 * 1024,

  /** What `infer` looks at. */
  inferLinesMax: 10_000,
  inferLineBytesMax: 16 * 1024 * 1024,
  inferKeysMax: 1_000,

  /** Flushes that `doctor` times, and from when on a disk is called slow, in ms. */
  doctorFlushes: 20,
  doctorSlowFlushMs: 10,
  /** How far two clocks may be apart, in ms, and how long a certificate has to last, in days. */
  doctorClockMs: 2_000,
  doctorTlsDays: 14,
  /** Free space under which it warns, in bytes. */
  doctorFreeBytesMin: 2 * 1024 * 1024 * 1024,
  /** How long a door may take to answer, in ms. */
  doctorAnswerMs: 5_000,

  /** Lines of history that the prompt keeps. */
  promptHistoryMax: 1_000,
  /** Characters of one cell that the prompt shows. */
  promptCellCharsMax: 500,
} as const;
