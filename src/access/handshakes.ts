/**
 * TCP connections whose TLS handshake has not finished. `tls.Server` hands over a connection when its handshake is done
 * and does not say which socket it came from; the addresses and ports of the two ends identify it.
 */
import type { Socket } from 'node:net';

export class TlsHandshakes<T> {
  readonly #under = new Map<string, { readonly socket: Socket; readonly value: T }>();

  get size(): number {
    return this.#under.size;
  }

  begin(socket: Socket, value: T): void {
    const key = ends(socket);
    this.#under.set(key, { socket, value });
    socket.once('close', () => {
      if (this.#under.get(key)?.socket === socket) this.#under.delete(key);
    });
  }

  /** The value that `begin` was given for the connection that this one runs over; undefined: that connection has ended. */
  done(secure: Socket): T | undefined {
    const key = ends(secure);
    const found = this.#under.get(key);
    this.#under.delete(key);
    return found?.value;
  }

  destroyAll(): void {
    for (const { socket } of this.#under.values()) socket.destroy();
  }
}

function ends(socket: Socket): string {
  return [socket.remoteAddress, socket.remotePort, socket.localAddress, socket.localPort].join(' ');
}
