/** The bounds of having certificates made; a part of `limits` (limits.ts). */
export const acmeLimits = {
  /** Domains of one certificate; what authorities take. */
  acmeDomainsMax: 100,
  /** Answer of an authority, in bytes, and how long one may take, in ms. */
  acmeAnswerBytesMax: 128 * 1024,
  acmeAnswerMs: 20_000,
  /** From the directory to the certificate, in ms; then the attempt has failed. */
  acmeAttemptMs: 5 * 60_000,
  /** What is left for keeping its outcome, in ms, before another Headgate may ask. */
  acmeKeepMs: 30_000,
  /** How often a request is made again whose nonce the authority does not accept. */
  acmeNoncesMax: 12,
  /** How often an order is looked at, at most and at least, in ms, where the authority does not say it. */
  acmePollMs: 1_000,
  acmePollMsMax: 20_000,
  /** A URL or a token of an authority, in characters. */
  acmeTextCharsMax: 2_048,
  /** What is said of an authority's reason, in characters. */
  acmeReasonCharsMax: 300,
  /** Certificates in a chain. */
  acmeChainMax: 8,
  /** The pause after an attempt that failed: it doubles, in ms. Let's Encrypt allows five of them in an hour. */
  acmeRetryMs: 4 * 60_000,
  acmeRetryMsMax: 12 * 60 * 60_000,
  /** How often the shared state is looked at, and whatever else there is, in ms. */
  acmeLookMs: 5_000,
  acmeLookMsMax: 60 * 60_000,
  /** Until every other Headgate has looked, in ms. */
  acmeShareMs: 11_000,
  /** Attempts that fail in a row before it is wrong and not bad luck. */
  acmeFailuresToldMin: 3,
  /** Connections of the port for HTTP, and how long a request may take there, in ms. */
  acmeConnectionsMax: 256,
  acmeRequestMs: 10_000,
} as const;
