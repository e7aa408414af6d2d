/**
 * Signals that abort with the first of several. AbortSignal.any refers to its sources weakly: a timeout to which nothing else
 * refers is collected with other garbage, and never comes (https://github.com/nodejs/node/issues/57736). A lint rule forbids it elsewhere.
 */

/** Aborts after `ms`, or sooner with one of the others. */
export function abortAfter(ms: number, ...sooner: readonly AbortSignal[]): AbortSignal {
  const timeout = AbortSignal.timeout(ms);
  // A signal with a listener is kept until it has come.
  timeout.addEventListener('abort', () => undefined, { once: true });
  return AbortSignal.any([timeout, ...sooner]);
}

/** Aborts with the first of these. Each is that of a controller which its caller keeps; for a time there is `abortAfter`. */
export function abortWith(...signals: readonly AbortSignal[]): AbortSignal {
  return AbortSignal.any([...signals]);
}
