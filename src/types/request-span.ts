/** What a traced request is told of its way, by the stages that it passes. Types only. */
export interface RequestSpan {
  /** `00-<trace>-<span>-01`: what continues the trace behind Headgate. */
  readonly traceparent: string;
  /** When it passed the check, and went to its lane, by a monotonic clock in ms; 0: not yet. */
  verifiedMs: number;
  queuedMs: number;
  /** When it was certain that its rows are stored, or that the request is on the disk. */
  committedMs: number;
  spooledMs: number;
}
