/** The bounds of WITH (keep = …); a part of `limits` (limits.ts). */
export const keepLimits = {
  /** How often the tables of a database are checked, in ms. */
  keepEveryMs: 60_000,
  /** The same if a table had more rows to remove than its turn had time for. */
  keepAgainMs: 10_000,
  /** Rows that one transaction removes, the time after which it begins no further statement, and its longest wait for a lock and run, in ms. */
  keepBatchRowsMax: 300,
  keepBatchMs: 50,
  /** Rows that one statement of it removes: meanwhile it occupies one core of the engine. */
  keepPieceRowsMax: 50,
  keepLockMs: 200,
  keepStatementMs: 5_000,
  /** How long the end of a statement may take to arrive after that, in ms; then its connection is given up. */
  keepAnswerMs: 1_000,
  /** Approximate number of rows from which the cost of one is learnt. */
  keepSampleRows: 5_000,
  /** The rest after such a transaction, in ms, and as a multiple of the time that it took. */
  keepRestMs: 2,
  keepRestTimes: 8,
  /** How long one table is worked on before the next one has its turn, in ms. */
  keepTurnMs: 30_000,
  /** After how long no further table of the same owner has its turn in this pass, in ms. */
  keepOwnerMs: 120_000,
  /** Rows of headgate.kept that stay in a database. */
  keepLoggedMax: 10_000,
} as const;
