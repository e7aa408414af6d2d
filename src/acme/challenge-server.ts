/**
 * The port that an authority asks over plain HTTP (RFC 8555 §8.3). Takes GET and HEAD: for exactly a token that is expected, returns
 * the proof of the account; redirects any other request for one of the configured domains to https. Everything else is answered 404,
 * and so learns nothing. A POST is not redirected: its body has already been sent in the clear, and its sender should notice.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createHttpServer } from '../http/server.ts';
import type { Closable } from '../kit/closer.ts';
import { listenAt } from '../kit/listen-at.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import { limits } from '../config/limits.ts';

type ChallengeAnswer = (token: string) => string | null;

interface ChallengeDoor extends Closable {
  readonly port: number;
}

const prefix = '/.well-known/acme-challenge/';

export async function openChallengeDoor(
  at: ListenAt,
  domains: readonly string[],
  answer: ChallengeAnswer,
): Promise<ChallengeDoor> {
  const server = createHttpServer({
    headersBytesMax: limits.headersBytesMax,
    headersTimeoutMs: limits.acmeRequestMs,
    requestTimeoutMs: limits.acmeRequestMs,
    keepAliveTimeoutMs: 1,
    connectionsMax: limits.acmeConnectionsMax,
  });
  server.on('request', (request, response) => serve(domains, answer, request, response));
  server.on('clientError', (_error, socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(listenAt(at), resolve);
  });
  // A failing accept costs that client its connection, not the port.
  server.on('error', () => {});
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { port: (server.address() as AddressInfo).port, close };
}

function serve(
  domains: readonly string[],
  answer: ChallengeAnswer,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const { method = '', url = '', headers } = request;
  const end = (status: number, more: Readonly<Record<string, string>>, body = '') => {
    response.writeHead(status, { ...more, 'content-length': Buffer.byteLength(body), connection: 'close' });
    response.end(method === 'HEAD' ? undefined : body);
  };
  if (method !== 'GET' && method !== 'HEAD') return end(404, {});
  if (url.startsWith(prefix)) {
    const found = answer(url.slice(prefix.length));
    return found === null ? end(404, {}) : end(200, { 'content-type': 'application/octet-stream' }, found);
  }
  const host = (headers.host ?? '').toLowerCase().replace(/:\d+$/, '');
  // Only to configured domains and a well-formed path: no redirect leads anywhere else.
  if (!domains.includes(host) || !/^\/[\x21-\x7e]*$/.test(url)) return end(404, {});
  end(308, { location: `https://${host}${url}` });
}
