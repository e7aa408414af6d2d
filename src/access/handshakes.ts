/**
 * TCP connections whose TLS has not begun to flow. `tls.Server` gives a connection when its handshake is done and does
 * not say which socket it came from; the two ends' addresses and ports do.
 */
import type { Socket } from 'node:net';

export class Handshakes<T> {
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

  /** What `begin` was told of the connection that this one runs over; undefined: it has ended meanwhile. */
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
