/**
 * A signal that aborts after `ms`, or sooner with one of the others. AbortSignal.any refers to its sources weakly: a timeout to which nothing else
 * refers is collected with other garbage, and never comes (https://github.com/nodejs/node/issues/57736).
 */
export function abortAfter(ms: number, ...sooner: readonly AbortSignal[]): AbortSignal {
  const timeout = AbortSignal.timeout(ms);
  // A signal with a listener is kept until it has come.
  timeout.addEventListener('abort', () => undefined, { once: true });
  return AbortSignal.any([timeout, ...sooner]);
}
