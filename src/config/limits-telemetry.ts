/** The bounds of traces and metrics for OpenTelemetry; a part of `limits` (limits.ts). */
export const telemetryLimits = {
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
} as const;
