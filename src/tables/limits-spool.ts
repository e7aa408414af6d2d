/** The bounds of the spool; a part of `limits` (limits.ts). */
export const spoolLimits = {
  /** Records that one flush of the disk makes durable. */
  spoolGroupRecordsMax: 2_048,
  /** Bytes of them; a record that is larger goes alone. */
  spoolGroupBytesMax: 8 * 1024 * 1024,
  /** Requests of one table that are sealed together, and are lost together where the disk damages one of them … */
  spoolSealedRequestsMax: 32,
  /** … and bytes of them; a request that is larger is sealed alone. */
  spoolSealedBytesMax: 16 * 1024,
  /** Bytes of records that wait for the flush before theirs to end; of one table at most what the others are left. */
  spoolWaitingBytesMax: 64 * 1024 * 1024,
  /** So many times as many bytes as requests of all tables may still take, one table may have: three quarters, where it is alone. */
  spoolTableShare: 3,
  /** How long it is believed how many bytes of what stand in the files, in ms. */
  spoolUsedMs: 100,
  /** A second failure of the disk within so many ms ends the spool until the next start. */
  spoolFailuresWithinMs: 60_000,
  /** What is read of a segment at one time, in bytes. */
  spoolReadBytes: 128 * 1024,
  /** Bytes of one segment; smaller where the spool may have less than eight of them. */
  spoolSegmentBytes: 64 * 1024 * 1024,
  /** What a record may have besides its body, in bytes: headers, and what is told of its table. */
  spoolRecordExtraBytes: 1024 * 1024,
  /** How long the first request that misses the database waits for it before the table spools, in ms. */
  spoolAfterMs: 500,
  /** How long a lane refuses before its table spools, in ms. */
  spoolRefusedMs: 1_000,
  /** How long requests wait while the last ones from the disk are handed over, in ms; then they go there, too. */
  spoolEmptyingMs: 2_000,
  /** Rows that are handed over in one transaction. */
  spoolDrainRowsMax: 16_384,
  /** … and while requests of other tables are committed. */
  spoolGentleRowsMax: 1_024,
  /** So many times as long as such a group took the hand-over rests behind it … */
  spoolGentleRests: 3,
  /** … but no longer than this, in ms; */
  spoolGentleRestMaxMs: 500,
  /** as long as, looked at so often, in ms, … */
  spoolGentleLookMs: 1_000,
  /** … so many times as many requests were handed over as have come. */
  spoolGentleLead: 2,
  /** Bytes of requests, of all tables together, that are read ahead of what is handed over. */
  spoolDrainBytesMax: 32 * 1024 * 1024,
  /** Shortest pause before what could not be handed over is tried again, in ms. */
  spoolRetryMinMs: 100,
  /** Longest such pause, in ms. */
  spoolRetryMs: 5_000,
  /** How long a request that takes the database too long is tried alone before it is passed, in ms. */
  spoolSlowMs: 60_000,
  /** How often a request follows a table that is being changed while it is handed over. */
  spoolChangedMax: 3,
  /** How often what is known of the tables is written down for a start without the database, in ms. */
  spoolSnapshotMs: 20_000,
  /** What a sender is told to wait when the spool is full, in seconds. */
  spoolFullRetrySeconds: 30,
} as const;
