import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { Endpoint } from '../../src/engine/engine.ts';

/** The connection to a server, which can be barred: open connections are cut, and no new ones get through. */
export class Barrier {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #to: Endpoint;
  port = 0;

  constructor(to: Endpoint) {
    this.#to = to;
    this.#server = createServer((socket) => this.#join(socket));
  }

  #join(socket: Socket): void {
    const there = this.#to.kind === 'unix' ? connect(this.#to.path) : connect(this.#to.port, this.#to.host);
    for (const end of [socket, there]) {
      this.#sockets.add(end);
      end.on('error', () => undefined);
      end.on('close', () => (socket.destroy(), there.destroy(), this.#sockets.delete(end)));
    }
    socket.pipe(there).pipe(socket);
  }

  async open(): Promise<void> {
    if (this.#server.listening) return;
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    ({ port: this.port } = this.#server.address() as AddressInfo);
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async bar(): Promise<void> {
    if (!this.#server.listening) return;
    const barred = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await barred;
  }
}
