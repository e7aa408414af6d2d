/** The bounds of ANSWER and of handshakes; a part of `limits` (limits.ts). */
export const answerLimits = {
  /** ANSWER clauses of one table. */
  answersMax: 16,
  /** HEADER clauses of one of them. */
  answerHeadersMax: 8,
  /** Secrets that the ANSWER clauses of one statement name. */
  answerSecretsMax: 8,
  /** Body of an answer, in bytes. */
  answerBodyBytesMax: 512,
  /** Value of one header of an answer, in characters. */
  answerHeaderCharsMax: 256,
  /** Body and own headers of an answer together, in bytes: with the headers of every answer it stays below 1,024. */
  answerOwnBytesMax: 640,
  /** Largest body of a handshake, in bytes; a larger one matches no rule. */
  handshakeBodyBytesMax: 4 * 1024,
  /** Handshakes of one table that are answered per second, counted apart for those that VALIDATE accepted and the others … */
  handshakesPerSecond: 5,
  /** … and at once. */
  handshakesBurst: 20,
  /** Tables with rates of their own. */
  handshakeTablesMax: 1_000,
  /** How long handshakes are answered from the last known catalog while the engine is unreachable, in ms. */
  handshakeStaleMs: 24 * 60 * 60 * 1_000,
  /** Shortest secret that can be learned, in bytes … */
  learnedBytesMin: 16,
  /** … and the shortest and longest time in which it can be, in s. */
  learnWindowMinS: 60,
  learnWindowMaxS: 24 * 60 * 60,
  /** How long learning a secret may take, in ms. */
  learnMs: 5_000,
  /** Names that took longer to resolve, in ms, are looked up one after the other. */
  outgoingLookupMs: 1_000,
  /** One request that Headgate makes because of a message: from the lookup of the name to the last byte, in ms … */
  outgoingMs: 5_000,
  /** … the answer, in bytes … */
  outgoingBytesMax: 16 * 1024,
  /** … what comes besides its body, in bytes: heads, interim answers, what TLS needs … */
  outgoingBesidesBytesMax: 128 * 1024,
  /** … and the number of such requests in an hour … */
  outgoingPerHour: 20,
  /** … and at once; counted apart for certificates and confirmations. */
  outgoingBurst: 5,
  /** The keys of an issuer, as they are published, in bytes … */
  jwksBytesMax: 256 * 1024,
  /** … and their number. */
  jwksKeysMax: 100,
  /** Bits of an RSA key among them (RFC 7518, section 3.3). */
  jwksRsaBitsMin: 2_048,
  /** The longest RSA key of such a set that is used: a longer one would make each request cost much. */
  jwksRsaBitsMax: 8_192,
  /** Issuers whose keys one process keeps; those that were asked for last. */
  jwksKeptMax: 256,
  /** How old keys may be before they are fetched again, in ms … */
  jwksFreshMs: 10 * 60 * 1_000,
  /** … and how old if they cannot be. */
  jwksStaleMs: 24 * 60 * 60 * 1_000,
  /** Pause between two attempts to fetch the keys of one issuer, in ms … */
  jwksPauseMs: 60_000,
  /** … and while there are none. */
  jwksEmptyPauseMs: 5_000,
  /** Confirmations that wait for the previous one. */
  snsConfirmingMax: 8,
  /** Topics of one table. */
  snsTopicsMax: 32,
  /** Largest message of SNS that is parsed, in bytes; SNS sends 256 KiB at most, and escapes it. */
  snsMessageBytesMax: 1024 * 1024,
  /** Largest request of Event Grid in which a validation is looked for, in bytes, and subscriptions of one table. */
  eventGridMessageBytesMax: 64 * 1024,
  eventGridSubscriptionsMax: 32,
  /** Handshakes of one database that wait to be written down; further ones are counted and dropped. */
  handshakesWaitingMax: 256,
  /** Rows of headgate.handshakes, per database. */
  handshakesKeptMax: 1_000,
} as const;
