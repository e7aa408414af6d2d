/** The bounds of the process: listeners, engine, stop; a part of `limits` (limits.ts). */
export const processLimits = {
  /** Tables with metrics of their own; those beyond are counted together as `other`. */
  metricTablesMax: 1_000,
  /** Answers a second that a terminal is told of one by one; the others are counted. */
  requestLinesPerSMax: 5,

  /** Listener processes that there are by cores at most, however many there are of those. */
  listenersMax: 4,
  /** Memory of the machine for each of them then, in bytes. */
  listenerMemoryBytes: 512 * 1024 * 1024,
  /** Commit connections of each, per database, at least. */
  listenerCommitConnectionsMin: 2,
  /** How often a listener process is asked for its figures and a sign of life, in ms … */
  listenerBeatMs: 2_000,
  /** … and how many it may miss in a row before it is ended and started anew. */
  listenerBeatsMissedMax: 15,
  /** How long one question to a listener process may take, in ms. */
  listenerAnswerMs: 1_000,
  /** First and longest pause before a listener process that ended is started again, in ms. */
  listenerBackoffMinMs: 50,
  listenerBackoffMs: 5_000,
  /**
   * How long the transactions of a listener process that was killed are waited for before streams are opened, in ms: longer
   * than their statements may take (`commitStatementTimeoutMs`).
   */
  listenerLeftMs: 5_000,
  /** How often a process that settles what streams have left tells that it gets on with it, in ms, … */
  fenceTellMs: 500,
  /** … how long it may be silent, in ms: more than twice as long as a statement may take (`commitStatementTimeoutMs`), … */
  fenceSilentMs: 5_000,
  /** … and how long a stream waits for one that gets on, in ms. */
  fencePatienceMs: 60_000,
  /** Observations of one listener process that wait to be told; those beyond are counted and forgotten. */
  listenerSaidMax: 10_000,

  /** Lines of the log of one kind that are written one after another, and how many a second then; the others are counted. */
  logBurstMax: 200,
  logLinesPerSecondMax: 20,
  /** Log lines that wait for who reads standard error, in bytes; those beyond are counted. */
  logWaitingBytesMax: 1024 * 1024,
  /** How long those that wait are waited for at the end of the process, in ms. */
  logFlushMs: 500,

  /** How long the sessions of a database that is moved may take to end, and how often is looked, in ms. */
  moveCloseMs: 10_000,
  moveLookMs: 20,

  /** How long what was taken before SIGTERM has to be answered, in ms. */
  drainMs: 10_000,
  /** How long everything may take to close behind that, in ms, before it is ended as it is: a hung engine by SIGKILL. */
  closeMs: 8_000,
  /** From the first signal to the end of the process, in ms, whatever happens: `drainMs`, `closeMs`, and what is cut off then. */
  stopMs: 20_000,
  /** How long idle connections of the webhook listener are kept then, for what is on its way on them, in ms. */
  drainIdleMs: 200,
  /** And so many times that, as long as requests come meanwhile. */
  drainIdleRoundsMax: 5,
  /** Turns of the event loop that a listener goes on accepting in when it stops, for one in which nobody came. */
  closingTurnsMax: 64,
  /** Observations of the engine that starts which are kept until the rest of the program is there to hear them. */
  startSaidMax: 1_000,
  /** How long the embedded engine may take to accept its first connection, in ms. */
  engineStartMs: 30_000,
  /** Longest pause between two attempts to start or reach the engine, in ms: so long an outage goes on after its end. */
  engineBackoffMs: 1_000,
  /** First pause between two such attempts, in ms; each further one doubles it up to `engineBackoffMs`. */
  engineBackoffMinMs: 50,
  /** How long the embedded engine may take for a clean stop before its sessions are cut off, in ms. */
  engineStopMs: 6_000,
  /** Connections that Headgate cannot do without: to watch the engine, for the catalog, for commits, for refused requests and the rest. */
  engineConnectionsMin: 4,
  /** How long one connection to the engine, or one sign of life on it, may take, in ms. */
  engineAnswerMs: 5_000,
  /** How long the servers before one that can be used may take to say that they can, in ms. */
  engineChoiceMs: 250,
  /** How long a connection to the engine may take to end in good order, in ms. */
  engineFarewellMs: 1_000,
  /** Pause between two signs of life on the supervising connection, in ms. */
  engineHeartbeatMs: 5_000,
  /** How often is looked for signs that rows cannot be written, in ms … */
  writeLookMs: 2_000,
  /** … how long at least lies between two questions to an engine that could write, in ms … */
  writeProbeRestMs: 10_000,
  /** … and below how much room on the disk of the data directory it is asked, in bytes. */
  writeRoomBytes: 1024 * 1024,
  /** Connections of the embedded engine: beside `sqlConnectionsMax` there are some left for Headgate's own at any time. */
  engineConnectionsMax: 300,
  /** One line of the embedded engine's log, in characters; the rest of a longer line is left out. */
  engineLogLineCharsMax: 2_000,
  /** How long the claims of two Headgates that start on one data directory may take to settle, in ms. */
  dataDirLockMs: 3_000,
} as const;
