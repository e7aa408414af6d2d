/**
 * The connection to the engine for a client of the SQL port. Takes the engine's endpoint; returns a socket on which nothing has been sent but, if the
 * endpoint has TLS, the request for it.
 */
import { connect as connectTcp, isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import type { Endpoint } from '../engine/engine.ts';
import { writeSslRequest } from './startup.ts';

/** Rejects if the engine cannot be reached, if TLS is required and the engine does not have it, or if `signal` is aborted first. */
export async function dialEngine(endpoint: Endpoint, signal: AbortSignal): Promise<Socket> {
  if (endpoint.kind === 'unix') {
    const socket = connectTcp({ path: endpoint.path, allowHalfOpen: true });
    await first<void>(socket, signal, (done) => socket.once('connect', done));
    return socket;
  }
  const { host, port } = endpoint;
  const socket = connectTcp({ host, port, allowHalfOpen: true, noDelay: true, keepAlive: true });
  await first<void>(socket, signal, (done) => socket.once('connect', done));
  return endpoint.tls ? startTls(socket, host, endpoint.tlsOptions ?? {}, signal) : socket;
}

async function startTls(
  socket: Socket,
  host: string,
  options: ConnectionOptions,
  signal: AbortSignal,
): Promise<Socket> {
  const answer = await first<Buffer>(socket, signal, (done) => {
    socket.once('data', (bytes: Buffer) => {
      socket.pause();
      done(bytes);
    });
    socket.write(writeSslRequest());
  });
  // Bytes after the single `S` could come from anybody (CVE-2021-23222).
  if (answer.length !== 1 || answer[0] !== 0x53) {
    socket.destroy();
    throw new Error('the database does not offer TLS');
  }
  const secure = connectTls({
    ...options,
    socket,
    // The name that its certificate must have; SNI is not used for an IP address (RFC 6066 §3).
    host,
    ...(isIP(host) === 0 ? { servername: host } : {}),
  });
  await first<void>(secure, signal, (done) => secure.once('secureConnect', done));
  return secure;
}

/** Waits for one event of a socket; if the socket ends before, rejects and leaves it destroyed. */
async function first<T>(
  socket: Socket,
  signal: AbortSignal,
  subscribe: (done: (value: T) => void) => void,
): Promise<T> {
  let failed!: (error: Error) => void;
  const lost = (): void => failed(new Error('the connection was closed'));
  const aborted = (): void => failed(new Error('the connection took too long'));
  try {
    return await new Promise<T>((resolve, reject) => {
      failed = reject;
      socket.once('error', reject);
      socket.once('end', lost);
      socket.once('close', lost);
      if (signal.aborted) aborted();
      signal.addEventListener('abort', aborted);
      subscribe(resolve);
    });
  } catch (error) {
    socket.on('error', () => {});
    socket.destroy();
    throw error;
  } finally {
    socket.off('error', failed);
    socket.off('end', lost);
    socket.off('close', lost);
    signal.removeEventListener('abort', aborted);
  }
}
