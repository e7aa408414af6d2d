/** The bounds of the spool; a part of `limits` (limits.ts). */
export const spoolLimits = {
  /** Records that one flush of the disk makes durable. */
  spoolGroupRecordsMax: 2_048,
  /** Bytes of them; a larger record goes alone. */
  spoolGroupBytesMax: 8 * 1024 * 1024,
  /** Requests of one table that are sealed together, and that are lost together if the disk damages one of them … */
  spoolSealedRequestsMax: 32,
  /** … and bytes of them; a larger request is sealed alone. */
  spoolSealedBytesMax: 16 * 1024,
  /** Bytes of records that wait for the flush before theirs to end; one table may use at most what the others leave. */
  spoolWaitingBytesMax: 64 * 1024 * 1024,
  /**
   * The tables of one owner may have this many times as many bytes as are still free for all requests, three quarters if they are alone; and one
   * table this many times as many as its owner's tables may still take.
   */
  spoolShare: 3,
  /** How long the count of bytes in the files is trusted, in ms … */
  spoolUsedMs: 100,
  /** … and up to how many more bytes. */
  spoolUsedBytes: 1024 * 1024,
  /** A second failure of the disk within this time, in ms, ends the spool until the next start. */
  spoolFailuresWithinMs: 60_000,
  /** How long after a segment could not be made, because the disk is full, another is tried, in ms. */
  spoolMakeAgainMs: 1_000,
  /** How much of a segment is read at one time, in bytes. */
  spoolReadBytes: 128 * 1024,
  /** Bytes of one segment; smaller if the spool could have fewer than eight of them. */
  spoolSegmentBytes: 64 * 1024 * 1024,
  /** How much larger than its body a record may be, in bytes: headers, and the description of its table. */
  spoolRecordExtraBytes: 1024 * 1024,
  /** How long the first request that finds the database unreachable waits for it before the table spools, in ms. */
  spoolAfterMs: 500,
  /** How long a request that the database does not take waits for the spool to be opened, in ms. */
  spoolOpenedMs: 2_000,
  /** How long requests wait while the last ones from the disk are handed over, in ms; after that they go to the disk, too. */
  spoolEmptyingMs: 2_000,
  /** Rows that are handed over in one transaction, … */
  spoolDrainRowsMax: 16_384,
  /** … and while requests of other tables are committed. */
  spoolGentleRowsMax: 1_024,
  /** The rest of the hand-over after such a group, as a multiple of the time that it took … */
  spoolGentleRests: 3,
  /** … but no longer than this, in ms; */
  spoolGentleRestMaxMs: 500,
  /** this holds as long as, checked at this interval, in ms, … */
  spoolGentleLookMs: 1_000,
  /** … this many times as many requests were handed over as have arrived. */
  spoolGentleLead: 2,
  /** Bytes of requests, of all tables together, that are read ahead of the hand-over. */
  spoolDrainBytesMax: 32 * 1024 * 1024,
  /** Shortest pause before a failed hand-over is tried again, in ms. */
  spoolRetryMinMs: 100,
  /** Longest such pause, in ms. */
  spoolRetryMs: 5_000,
  /** How long a request that the database takes too long for is tried alone before it is skipped, in ms. */
  spoolSlowMs: 60_000,
  /** How many times a request is tried while its table keeps changing during the hand-over. */
  spoolChangedMax: 3,
  /** How often what is known of the tables is written to disk, for a start without the database, in ms. */
  spoolSnapshotMs: 20_000,
  /** The wait that a sender is told when the spool is full, in seconds. */
  spoolFullRetrySeconds: 30,
} as const;
