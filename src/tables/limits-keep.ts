/** The bounds of WITH (keep = …); a part of `limits` (limits.ts). */
export const keepLimits = {
  /** How often the tables of a database are looked through, in ms. */
  keepEveryMs: 60_000,
  /** The same, where a table had more rows to remove than there was time for in its turn. */
  keepAgainMs: 10_000,
  /** Rows that one transaction removes, after how long it begins no other statement, and how long it may wait for a lock and run, in ms. */
  keepBatchRowsMax: 300,
  keepBatchMs: 50,
  /** Rows that one statement of it removes: nothing else has that core of the engine meanwhile. */
  keepPieceRowsMax: 50,
  keepLockMs: 200,
  keepStatementMs: 5_000,
  /** Rows, about, from which is learnt what one takes. */
  keepSampleRows: 5_000,
  /** How long it rests after one of those, in ms, and how many times as long as it took. */
  keepRestMs: 2,
  keepRestTimes: 8,
  /** How long one table is worked on before the next one has its turn, in ms. */
  keepTurnMs: 30_000,
  /** Rows of headgate.kept that stay in a database. */
  keepLoggedMax: 10_000,
} as const;
