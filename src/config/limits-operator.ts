/** The bounds of `headgate operator`, a part of `limits` (limits.ts). */
export const operatorLimits = {
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
