/** The bounds of ANSWER and of handshakes; a part of `limits` (limits.ts). */
export const answerLimits = {
  /** HEADER clauses of one of them. */
  answerHeadersMax: 8,
  /** Body of an answer, in bytes. */
  answerBodyBytesMax: 512,
  /** Value of one header of an answer, in characters. */
  answerHeaderCharsMax: 256,
  /** Body and own headers of an answer together, in bytes: with what every answer has it stays below 1,024. */
  answerOwnBytesMax: 640,
} as const;
