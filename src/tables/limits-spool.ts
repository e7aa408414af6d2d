/** The bounds of the spool; a part of `limits` (limits.ts). */
export const spoolLimits = {
  /** Records that one flush of the disk makes durable. */
  spoolGroupRecordsMax: 2_048,
  /** Bytes of them; a record that is larger goes alone. */
  spoolGroupBytesMax: 8 * 1024 * 1024,
  /** Bytes of records that wait for the flush before theirs to end; one more is refused. */
  spoolWaitingBytesMax: 64 * 1024 * 1024,
  /** A second failure of the disk within so many ms ends the spool until the next start. */
  spoolFailuresWithinMs: 60_000,
  /** What is read of a segment at one time, in bytes. */
  spoolReadBytes: 1024 * 1024,
} as const;
