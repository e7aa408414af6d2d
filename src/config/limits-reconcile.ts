/** The bounds of WITH (reconcile = …); a part of `limits` (limits.ts). */
export const reconcileLimits = {
  /** How often a log is read: least, most and default, in s. */
  reconcileEveryMinS: 60,
  reconcileEveryMaxS: 86_400,
  reconcileEveryS: 600,
  /** How often is looked for tables whose turn it is, in ms, and how many of them have it at one time. */
  reconcileLookMs: 2_000,
  reconcileTablesMax: 4,
  /** How long a turn may take before another table has one, in ms, and how long a table is held beyond its last statement, in s. */
  reconcileTurnMs: 60_000,
  reconcileHoldS: 120,
  /** How long a call of an API may take, in ms, and how large its answer may be. */
  reconcileCallMs: 30_000,
  reconcileBytesMax: 33_554_432,
  /** Pages of one reading of a log: of 100 deliveries each. */
  reconcilePagesMax: 20_000,
  /** How old a delivery is before it counts as missing, and for how long the log may still add older ones, in ms. */
  reconcileSettleMs: 120_000,
  reconcileOverlapMs: 900_000,
  /** By how much the clock of an API may differ, in ms. */
  reconcileSkewMs: 3_600_000,
  /** Deliveries that are asked for in one turn. */
  reconcileAskedMax: 1_000,
  /** The pauses before a missing delivery is asked for again, and after an answer that is none, in ms: the first, and the longest. */
  reconcileAgainMinMs: 600_000,
  reconcileAgainMaxMs: 21_600_000,
  reconcileRestMinMs: 60_000,
  reconcileRestMaxMs: 3_600_000,
  /** Tables of a database whose problem is remembered, so that it is in the log once. */
  reconcileToldMax: 1_000,
  /** The part of an API's rate that is left to others. */
  reconcileRateLeft: 0.1,
  /** For how long past windows are shown, in days. */
  reconcileShownDays: 90,
} as const;
