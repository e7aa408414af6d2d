/** The bounds of the process: listeners, engine, stop; a part of `limits` (limits.ts). */
export const processLimits = {
  /** Tables with metrics of their own; further ones are counted together as `other`. */
  metricTablesMax: 1_000,
  /** Answers per second that a terminal shows one by one; the others are counted. */
  requestLinesPerSMax: 5,

  /** The most listener processes that are started by default, however many cores there are. */
  listenersMax: 4,
  /** Memory of the machine that each of them then needs, in bytes. */
  listenerMemoryBytes: 512 * 1024 * 1024,
  /** The least number of commit connections of each, per database. */
  listenerCommitConnectionsMin: 2,
  /** How often a listener process is asked for its figures and a sign of life, in ms … */
  listenerBeatMs: 2_000,
  /** … and how many answers in a row it may miss before it is ended and restarted. */
  listenerBeatsMissedMax: 15,
  /** How long one question to a listener process may take, in ms. */
  listenerAnswerMs: 1_000,
  /** First and longest pause before a listener process that ended is restarted, in ms. */
  listenerBackoffMinMs: 50,
  listenerBackoffMs: 5_000,
  /**
   * How long Headgate waits for the transactions of a killed listener process before it opens streams, in ms: longer
   * than their statements may take (`commitStatementTimeoutMs`).
   */
  listenerLeftMs: 5_000,
  /** How often a process that settles what streams have left reports progress, in ms, … */
  fenceTellMs: 500,
  /** … how long it may be silent, in ms: more than twice as long as a statement may take (`commitStatementTimeoutMs`), … */
  fenceSilentMs: 5_000,
  /** … and how long a stream waits for one that makes progress, in ms. */
  fencePatienceMs: 60_000,
  /** Observations of one listener process that wait to be reported; further ones are counted and dropped. */
  listenerSaidMax: 10_000,

  /** Log lines of one kind that are written in a row, and per second after that; the others are counted. */
  logBurstMax: 200,
  logLinesPerSecondMax: 20,
  /** Log lines that wait for the reader of standard error, in bytes; further ones are counted. */
  logWaitingBytesMax: 1024 * 1024,
  /** How long the process waits for them at its end, in ms. */
  logFlushMs: 500,

  /** How long the sessions of a database that is moved may take to end, and how often this is checked, in ms. */
  moveCloseMs: 10_000,
  moveLookMs: 20,

  /** How long requests received before SIGTERM have to be answered, in ms. */
  drainMs: 10_000,
  /** How long everything may then take to close, in ms, before it is cut off: a hung engine by SIGKILL. */
  closeMs: 8_000,
  /** From the first signal to the end of the process, in ms, whatever happens: `drainMs`, `closeMs`, and cutting off the rest. */
  stopMs: 20_000,
  /** Within this time after the first signal the same signal is not a second one, in ms. */
  sameSignalMs: 500,
  /** How long idle connections of the webhook listener are then kept for requests that are in flight on them, in ms. */
  drainIdleMs: 200,
  /** How many times that is repeated as long as requests arrive. */
  drainIdleRoundsMax: 5,
  /** Turns of the event loop in which a stopping listener still accepts connections, while it waits for a turn without one. */
  closingTurnsMax: 64,
  /** Observations of the starting engine that are kept until the rest of the program can take them. */
  startSaidMax: 1_000,
  /** How long the embedded engine may take to accept its first connection, in ms. */
  engineStartMs: 30_000,
  /** Longest pause between two attempts to start or reach the engine, in ms: an outage lasts this much longer. */
  engineBackoffMs: 1_000,
  /** First pause between two such attempts, in ms; each further one doubles it up to `engineBackoffMs`. */
  engineBackoffMinMs: 50,
  /** How long a clean stop of the embedded engine may take before its sessions are cut off, in ms. */
  engineStopMs: 6_000,
  /** Connections that Headgate needs at least: for supervising the engine, the catalog, commits, and refused requests and the rest. */
  engineConnectionsMin: 5,
  /** How long one connection to the engine, or one sign of life on it, may take, in ms. */
  engineAnswerMs: 5_000,
  /** How long after its connection was given up a server process may still be in its transaction before it is ended, in ms … */
  leftBehindMs: 1_000,
  /** … and how often that is tried while the server cannot be asked. */
  leftBehindAttemptsMax: 10,
  /** How long servers that are listed before a usable one may take to prove usable, in ms. */
  engineChoiceMs: 250,
  /** How long a connection to the engine may take to close cleanly, in ms. */
  engineFarewellMs: 1_000,
  /** Pause between two signs of life on the supervising connection, in ms. */
  engineHeartbeatMs: 5_000,
  /** How often a Headgate that has started without its database looks whether it is ready, in ms. */
  readyLookMs: 100,
  /** How often Headgate looks for signs that rows cannot be written, in ms … */
  writeLookMs: 2_000,
  /** … the shortest pause between two probes of an engine that could write, in ms … */
  writeProbeRestMs: 10_000,
  /** … and the free space on the disk of the data directory below which it is probed, in bytes. */
  writeRoomBytes: 1024 * 1024,
  /** Connections of the embedded engine: beyond `sqlConnectionsMax` and `sqlReservedMax` some are always left for Headgate itself. */
  engineConnectionsMax: 300,
  /** One line of the embedded engine's log, in characters; the rest of a longer line is dropped. */
  engineLogLineCharsMax: 2_000,
  /** How long the claims of two Headgates that start on one data directory may take to settle, in ms. */
  dataDirLockMs: 3_000,
} as const;
