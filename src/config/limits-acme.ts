/** The bounds of obtaining certificates; a part of `limits` (limits.ts). */
export const acmeLimits = {
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
} as const;
