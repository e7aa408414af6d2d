/** The sentence for a connection that a server, or a pooler in front of it, accepts and then does not serve. */

/** `ms`: how long the first statement waited. */
export const unservedReason = (ms: number): string =>
  `a connection was accepted and not served in ${ms} ms: the server is overloaded, or a pooler in front of it has fewer server connections (PgBouncer: default_pool_size) than Headgate opens (HEADGATE_COMMIT_CONNECTIONS, and some 8 others)`;

/** Whether `pg` gave up waiting for the answer to a statement: it gives that error no code. */
export const isUnanswered = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Query read timeout';
