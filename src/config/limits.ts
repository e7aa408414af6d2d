/**
 * Every bound of Headgate: name, value, unit last. A bound that a user may change is also a setting (settings.ts) whose
 * default is here; exceeding any of them is a refusal from refusals.ts. Those of a request and those of the doors have files of their own.
 */
import { doorLimits } from './limits-doors.ts';
import { requestLimits } from './limits-requests.ts';

export const limits = {
  ...requestLimits,
  ...doorLimits,

  // The process: listeners, log, engine, stop.
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
  /** How long every Headgate of a database has to see that it is moved; how long what it keeps on its disk may take to arrive first, in ms. */
  moveMarkedMs: 2_000,
  moveDrainMs: 60_000,

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
  /** How long it waits for that before it says that it is not ready, in ms. */
  readyTellMs: 1_500,
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

  // Obtaining certificates.
  /** Domains of one certificate; what authorities accept. */
  acmeDomainsMax: 100,
  /** Answer of an authority, in bytes, and how long one may take, in ms. */
  acmeAnswerBytesMax: 128 * 1024,
  acmeAnswerMs: 20_000,
  /** From the directory to the certificate, in ms; after that the attempt has failed. */
  acmeAttemptMs: 5 * 60_000,
  /** Time left for storing the outcome, in ms, before another Headgate may ask. */
  acmeKeepMs: 30_000,
  /** How often a request is repeated because the authority does not accept its nonce. */
  acmeNoncesMax: 12,
  /** Shortest and longest pause between two looks at an order, in ms, if the authority does not name one. */
  acmePollMs: 1_000,
  acmePollMsMax: 20_000,
  /** A URL or a token of an authority, in characters. */
  acmeTextCharsMax: 2_048,
  /** How much of an authority's reason is told, in characters. */
  acmeReasonCharsMax: 300,
  /** Certificates in a chain. */
  acmeChainMax: 8,
  /** First and longest pause after a failed attempt, in ms; it doubles. Let's Encrypt allows five of them in an hour. */
  acmeRetryMs: 4 * 60_000,
  acmeRetryMsMax: 12 * 60 * 60_000,
  /** How often the shared state is looked at, and how often at least anything else is, in ms. */
  acmeLookMs: 5_000,
  acmeLookMsMax: 60 * 60_000,
  /** After how long every other Headgate has looked, in ms. */
  acmeShareMs: 11_000,
  /** Failures in a row from which on an error is told, because it is no longer bad luck. */
  acmeFailuresToldMin: 3,
  /** Connections of the port for HTTP, and how long a request may take there, in ms. */
  acmeConnectionsMax: 256,
  acmeRequestMs: 10_000,

  // Alerts.
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

  // WITH (keep = …).
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

  // WITH (reconcile = …).
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

  // Traces and metrics for OpenTelemetry.
  /** Spans that wait to be sent or are being sent; further ones are dropped and counted. */
  spansWaitingMax: 2_048,
  /** Spans in one message; so many are sent at once, without waiting for more. */
  spansSentMax: 512,
  /** Requests that the span of a group's COMMIT is linked to. */
  spanLinksMax: 32,
  /** Random bytes that ids are taken from. */
  spanIdBytes: 4_096,
  /** One message, from the lookup of the name to the last byte of the answer, in ms … */
  telemetryPostMs: 10_000,
  /** … and the answer, in bytes. */
  telemetryAnswerBytesMax: 64 * 1024,
  /** Shortest and longest pause after a message that failed, in ms, unless the receiver says when to come again. */
  telemetryRetryMinMs: 1_000,
  telemetryRetryMs: 30_000,
  /** How long spans are tried again before they are dropped, in ms. */
  telemetryPatienceMs: 300_000,
  /** What is left is sent when Headgate stops, in ms. */
  telemetryFarewellMs: 2_000,
  /** Headers for the receiver, and attributes of the resource. */
  telemetryPairsMax: 64,

  // `headgate operator`.
  /** How long one request to the Kubernetes API server may take, in ms. */
  operatorRequestMs: 10_000,
  /** How long one watch lasts before the operator asks again, in seconds: finds a dead connection. */
  operatorWatchSeconds: 240,
  /** Silence on a connection to the API server after which the operator checks that its other end is alive, in ms. */
  operatorKeepAliveMs: 30_000,
  /** Largest answer, and largest event of a watch, that the operator accepts from the API server, in bytes. */
  operatorAnswerBytesMax: 32 * 1024 * 1024,
  /** Objects that one page of a list asks for. */
  operatorListPageMax: 500,
  /** Headgates that one operator manages; further ones are reported in the log. */
  operatorResourcesMax: 5_000,
  /** Headgates that are reconciled at one time. */
  operatorReconcilesMax: 4,
  /** How often a Headgate is checked when nothing seems to have changed, in ms: also finds Secrets that have. */
  operatorResyncMs: 300_000,
  /** First and longest pause before a retry of something that failed, in ms. */
  operatorBackoffMinMs: 500,
  operatorBackoffMaxMs: 60_000,
  /** How long a leader remains the leader after its last sign of life, in seconds. */
  operatorLeaseSeconds: 15,
  /** A leader that could not renew its lease for so long steps down, in ms; well below `operatorLeaseSeconds`. */
  operatorRenewDeadlineMs: 10_000,
  /** Pause between two looks at the lease, in ms. */
  operatorLeaseRetryMs: 2_000,
} as const;

export type Limits = { readonly [name in keyof typeof limits]: number };

/** The settings that bound something: each is read here. */
interface BoundingSettings {
  readonly commitConnections: number;
  readonly bodyBytesMax: number;
  readonly keepAliveSeconds: number;
  readonly spoolBytesMax: number;
}

/** The bounds of this Headgate: the table, adjusted by settings. */
export function boundsOf({
  commitConnections,
  bodyBytesMax,
  keepAliveSeconds,
}: Omit<BoundingSettings, 'spoolBytesMax'>): Limits {
  return {
    ...limits,
    bodiesInFlightBytesMax: Math.max(limits.bodiesInFlightBytesMax, 2 * bodyBytesMax),
    keepAliveTimeoutMs: keepAliveSeconds * 1_000,
    commitConnectionsMax: commitConnections,
    // Leaves connections for the groups, as far as possible.
    largeCommitsMax: Math.max(1, Math.min(limits.largeCommitsMax, commitConnections - 1)),
  };
}

/**
 * A segment holds the largest body; the spool holds eight segments, unless that would make segments smaller than the
 * largest body needs.
 */
export function segmentBytes(
  { spoolBytesMax, bodyBytesMax }: Pick<BoundingSettings, 'spoolBytesMax' | 'bodyBytesMax'>,
  limits: Pick<Limits, 'spoolSegmentBytes' | 'spoolRecordExtraBytes'>,
): number {
  const least = bodyBytesMax + limits.spoolRecordExtraBytes;
  return Math.ceil(Math.max(least, Math.min(limits.spoolSegmentBytes, spoolBytesMax / 8)) / 4_096) * 4_096;
}
