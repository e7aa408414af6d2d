/** The bounds of the SQL door, rates and certificates; a part of `limits` (limits.ts). */
export const doorLimits = {
  /** Client connections of the SQL door. */
  sqlConnectionsMax: 200,
  /** Further ones for roles that hold few … */
  sqlReservedMax: 10,
  /** … fewer than this. */
  sqlReservedOfOneMax: 3,
  /** Size of a start-up packet of the SQL door, in bytes. PostgreSQL's own bound. */
  sqlStartupBytesMax: 10_000,
  /** From connecting to the end of authentication, in ms. */
  sqlStartupTimeoutMs: 60_000,
  /** Largest Query or Parse message that is searched for Headgate's statements; larger ones pass unread. */
  sqlStatementBytesMax: 16 * 1024 * 1024,
  /** How long such a search goes on before others get their turn, in ms. A single statement is not interrupted. */
  sqlSearchMs: 50,
  /** Headgate's own statements in one text; also of the text that replaces them there are at most `sqlStatementBytesMax` bytes. */
  sqlOwnStatementsMax: 1_000,
  /** Tokens of one statement of Headgate's; a longer statement is PostgreSQL's. */
  sqlOwnTokensMax: 262_144,
  /** Largest message of a client that has not yet authenticated, in bytes. */
  sqlAuthMessageBytesMax: 64 * 1024,
  /** Bytes that wait for one peer of a relayed connection before the other side is paused. */
  sqlRelayBufferBytesMax: 1024 * 1024,
  /** What is read of a client behind a message that is held, in bytes, before it has to wait. */
  sqlHeldBytesMax: 64 * 1024,
  /** Connections of the SQL door that are not authenticated yet, in addition to `sqlConnectionsMax`; a further one replaces one of them. */
  sqlOpeningsMax: 256,
  /** Messages of one SQL client that the engine has not answered; beyond that the client is paused. */
  sqlOutstandingMax: 65_536,
  /** Prepared statements of one SQL client whose command tag Headgate restores. */
  sqlRewrittenStatementsMax: 1_024,
  /** Largest error, notice or parameter status of the engine that is examined, in bytes; larger ones pass unread. */
  sqlNoticeBytesMax: 1024 * 1024,
  /** Engine connections for looking up the passwords of clients of the SQL door. */
  sqlPasswordConnectionsMax: 2,
  /**
   * How long a follower of the log may leave its full buffer unread, in ms. The engine's process that sends to it cannot end before it has said
   * why, and a checkpoint that takes its slot away waits for that end.
   */
  sqlFollowerUnreadMs: 60_000,
  /** How long a client may take to read the door's last message, in ms. */
  sqlLingerMs: 2_000,

  /** Connections of the admin port. */
  adminConnectionsMax: 256,
  /** How long a request to it may take to arrive, in ms. */
  adminRequestTimeoutMs: 10_000,

  /** Addresses (for IPv6: networks) whose requests are counted for a rate; the one seen longest ago is dropped. */
  rateAddressesMax: 65_536,
  /** Tables whose requests are counted for a rate. */
  rateTablesMax: 16_384,
  /** Names whose requests one listener process reports to the others at one time. */
  rateToldNamesMax: 4_096,
  /** How often listener processes report to each other, in ms. */
  rateToldMs: 25,
  /** How often the files of TLS certificates are compared with what is in use, in ms. */
  tlsPollMs: 5_000,
  /** How long before its expiry a certificate is warned of, and how often then, in ms. */
  tlsExpirySoonMs: 14 * 24 * 60 * 60 * 1000,
  tlsExpiryToldMs: 24 * 60 * 60 * 1000,
} as const;
