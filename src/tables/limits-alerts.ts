/** The bounds of alerts; a part of `limits` (limits.ts). */
export const alertLimits = {
  /** How long a condition has to be over before that is told, in ms. */
  alertClearMs: 300_000,
  /** Conditions that are known at one time; further ones are left out. */
  alertConditionsMax: 1_000,
  /** What is kept of them over a restart, in bytes. */
  alertFileBytesMax: 4 * 1024 * 1024,
  /** Of them, those that one message tells each by its name. */
  alertToldMax: 50,
  /** Counts whose growth is followed, each with … */
  alertCountsMax: 10_000,
  /** … so many of its values. */
  alertPointsMax: 128,
  /** Messages in an hour, tries that failed among them … */
  alertPerHour: 20,
  /** … and at once. */
  alertBurst: 5,
  /** How long nothing is tried after one that failed, at first and at most, in ms. */
  alertRetryMinMs: 15_000,
  alertRetryMs: 30 * 60 * 1_000,
  /** How often the database is asked which tables have gone silent and what others have told, in ms. */
  alertAskedEveryMs: 60_000,
  /** Databases that are asked. */
  alertDatabasesMax: 16,
  /** The disk is almost full with less than this, in bytes, or less than a tenth of it. */
  alertFreeBytesMin: 1024 * 1024 * 1024,
  /** Log that waits for who follows it, where the server has no bound on that, in bytes. */
  alertSlotBytesMax: 4 * 1024 * 1024 * 1024,
} as const;
