/** The bounds of alerts; a part of `limits` (limits.ts). */
export const alertLimits = {
  /** How long a condition has to be over before this is told, in ms. */
  alertClearMs: 300_000,
  /** Conditions known at one time; further ones are left out. */
  alertConditionsMax: 1_000,
  /** What is kept of them across a restart, in bytes. */
  alertFileBytesMax: 4 * 1024 * 1024,
  /** How many of them one message names. */
  alertToldMax: 50,
  /** Counters whose growth is followed, … */
  alertCountsMax: 10_000,
  /** … and values that are kept of each. */
  alertPointsMax: 128,
  /** Messages in an hour, failed tries included … */
  alertPerHour: 20,
  /** … and at once. */
  alertBurst: 5,
  /** Shortest and longest pause after a try that failed, in ms. */
  alertRetryMinMs: 15_000,
  alertRetryMs: 30 * 60 * 1_000,
  /** How often the database is asked which tables have gone silent and what other Headgates have told, in ms. */
  alertAskedEveryMs: 60_000,
  /** Databases that are asked. */
  alertDatabasesMax: 16,
  /** The disk is almost full with less free space than this, in bytes, or than a tenth of it. */
  alertFreeBytesMin: 1024 * 1024 * 1024,
  /** Log that is kept for a follower, if the server has no bound on that, in bytes. */
  alertSlotBytesMax: 4 * 1024 * 1024 * 1024,
} as const;
