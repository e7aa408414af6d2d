/**
 * TLS towards the clients of the SQL door. Takes a connection on which TLS begins now, returns the encrypted one;
 * rejects if the handshake fails or the client's certificate is not what the owner requires. Both ways to begin are
 * supported: after an SSLRequest, and at once (`sslnegotiation=direct` of PostgreSQL 17), in which case the client must
 * name the protocol by ALPN.
 */
import type { Socket } from 'node:net';
import { createServer } from 'node:tls';
import type { Server, TLSSocket } from 'node:tls';
import { TlsHandshakes } from '../access/handshakes.ts';
import type { TlsSource } from '../access/tls-source.ts';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';

/** The protocol's name as registered for ALPN. */
const protocol = 'postgresql';

export class ClientTls {
  readonly #handshakes = new TlsHandshakes<Deferred<TLSSocket>>();
  /** Never listens: it is given each connection on which TLS begins. */
  readonly #server: Server;

  constructor(source: TlsSource, handshakeTimeoutMs: number) {
    const handshakeTimeout = handshakeTimeoutMs;
    this.#server = createServer({ ...source.serverOptions, ALPNProtocols: [protocol], handshakeTimeout });
    source.serve(this.#server);
    this.#server.on('secureConnection', (secure) => {
      // Its errors are those of the connection: 'close' follows.
      secure.on('error', () => {});
      const waiting = this.#handshakes.done(secure);
      if (waiting === undefined || source.refuses(secure)) secure.destroy();
      else waiting.resolve(secure);
    });
    this.#server.on('tlsClientError', (_error, secure) => secure.destroy());
  }

  /** `direct`: the client began the handshake without a request; its bytes are still to be read from `client`. */
  async begin(client: Socket, direct: boolean): Promise<TLSSocket> {
    const secured = deferred<TLSSocket>();
    const left = (): void => secured.reject(new Error('the TLS handshake did not succeed'));
    client.once('close', left);
    try {
      this.#handshakes.begin(client, secured);
      this.#server.emit('connection', client);
      const secure = await secured.promise;
      if (direct && secure.alpnProtocol !== protocol) {
        secure.destroy();
        throw new Error('a direct TLS connection must name its protocol');
      }
      return secure;
    } finally {
      client.off('close', left);
    }
  }
}
