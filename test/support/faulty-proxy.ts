/**
 * A TCP proxy between Headgate and a PostgreSQL that simulates networks: it is slow, it stalls, it splits bytes into pieces,
 * and it resets connections, at an exact message of the PostgreSQL protocol if a test asks for that. It can also replace a
 * message of the server.
 */
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { Endpoint } from '../../src/engine/engine.ts';

type Side = 'client' | 'server';

interface Cut {
  readonly side: Side;
  left: number;
  readonly instead: Buffer | null;
  /** The connection is reset; otherwise the server's messages pass again once it is ready. */
  readonly ends: boolean;
}

/** An error message of the server. */
export function errorMessage(severity: 'ERROR' | 'FATAL' | 'PANIC', sqlstate: string): Buffer {
  const fields = `S${severity}\0V${severity}\0C${sqlstate}\0Msaid by the proxy\0Rsomewhere\0\0`;
  const message = Buffer.alloc(5 + fields.length);
  message.write('E', 0, 'latin1');
  message.writeInt32BE(4 + fields.length, 1);
  message.write(fields, 5, 'latin1');
  return message;
}

export class FaultyProxy {
  /** The delay of each piece. */
  latencyMs = 0;
  /** The size of the pieces that are passed on; null: as they come. */
  pieceBytes: number | null = null;
  /** Connections reset by `cutAfter`. */
  cuts = 0;
  /** Only connections whose startup names this application are cut; null: all. */
  readonly application: string | null;
  readonly #to: Endpoint;
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  #stalled: (() => void)[] | null = null;
  #cut: Cut | null = null;
  /** The types of the server's messages since `cutAfter` or `replaceAfter` was called. */
  trace = '';

  static async open(to: Endpoint, application: string | null = null): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(to, application);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  constructor(to: Endpoint, application: string | null) {
    this.#to = to;
    this.application = application;
    this.#server = createServer({ noDelay: true }, (client) => {
      const pair = new Pair(this, client, dial(this.#to), () => this.#pairs.delete(pair));
      this.#pairs.add(pair);
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** From now on this many messages of one side pass; then the connection with the next one is reset. */
  cutAfter(side: Side, messages: number): void {
    this.#cut = { side, left: messages, instead: null, ends: true };
    this.trace = '';
  }

  /**
   * From now on this many messages of the server pass; then `instead` replaces the next one, and the connection is reset, or
   * nothing more passes until the server is ready.
   */
  replaceAfter(messages: number, instead: Buffer, then: 'cut' | 'ready'): void {
    this.#cut = { side: 'server', left: messages, instead, ends: then === 'cut' };
    this.trace = '';
  }

  /** Nothing passes until `resume`; connections stay open. */
  stall(): void {
    this.#stalled ??= [];
  }

  resume(): void {
    const waiting = this.#stalled ?? [];
    this.#stalled = null;
    for (const go of waiting) go();
  }

  /** Resets every open connection. */
  reset(): void {
    for (const pair of this.#pairs) pair.reset();
  }

  close(): Promise<void> {
    this.resume();
    this.reset();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  /** The cut for this message, if it is due. */
  cutAt(side: Side, type: number): Cut | null {
    if (side === 'server') this.trace += String.fromCharCode(type);
    const cut = this.#cut;
    if (cut?.side !== side || cut.left-- > 0) return null;
    this.#cut = null;
    this.cuts += 1;
    return cut;
  }

  async passage(): Promise<void> {
    if (this.#stalled !== null) await new Promise<void>((go) => this.#stalled?.push(go));
    if (this.latencyMs > 0) await new Promise((go) => setTimeout(go, this.latencyMs));
  }
}

function dial(to: Endpoint): Socket {
  return to.kind === 'unix' ? connect(to.path) : connect({ port: to.port, host: to.host, noDelay: true });
}

class Pair {
  readonly #proxy: FaultyProxy;
  readonly #sockets: { readonly client: Socket; readonly server: Socket };
  #counted: boolean;

  constructor(proxy: FaultyProxy, client: Socket, server: Socket, onEnd: () => void) {
    this.#proxy = proxy;
    this.#sockets = { client, server };
    this.#counted = proxy.application === null;
    for (const socket of [client, server]) {
      socket.on('error', () => this.reset());
      socket.on('close', () => {
        onEnd();
        this.reset();
      });
    }
    void this.#pump('client', client, server);
    void this.#pump('server', server, client);
  }

  reset(): void {
    const { client, server } = this.#sockets;
    if (!client.destroyed) client.resetAndDestroy();
    server.destroy();
  }

  async #pump(side: Side, from: Socket, to: Socket): Promise<void> {
    const messages = new Messages(side === 'client');
    let silent = false;
    try {
      for await (const chunk of from) {
        for (const message of messages.push(chunk as Buffer)) {
          if (side === 'client' && !this.#counted && message.startup)
            this.#counted = message.bytes.includes(this.#proxy.application ?? '');
          else if (this.#counted) {
            if (silent && message.bytes[0] !== readyForQuery) continue;
            silent = false;
            const cut = this.#proxy.cutAt(side, message.bytes[0] ?? 0);
            if (cut !== null && cut.instead !== null) await this.#pass(cut.instead, to);
            if (cut?.ends === true) return await this.#reset(cut, to);
            silent = cut !== null && message.bytes[0] !== readyForQuery;
            if (silent) continue;
          }
          await this.#pass(message.bytes, to);
        }
      }
    } catch {
      this.reset();
    }
    to.end();
  }

  /** The replacement arrives, because a connection that is closed normally loses no bytes. */
  async #reset({ instead }: Cut, to: Socket): Promise<void> {
    if (instead === null) return this.reset();
    await new Promise<void>((resolve) => to.end(resolve));
    this.reset();
  }

  async #pass(bytes: Buffer, to: Socket): Promise<void> {
    const size = this.#proxy.pieceBytes ?? bytes.length;
    for (let at = 0; at < bytes.length; at += size) {
      await this.#proxy.passage();
      if (to.destroyed) return;
      if (!to.write(bytes.subarray(at, at + size)))
        await new Promise<void>((go) => {
          to.once('drain', go);
          to.once('close', go);
        });
    }
  }
}

const readyForQuery = 0x5a;

/** Splits the bytes of one direction into messages. The first of a client has no type. */
class Messages {
  #startup: boolean;
  #held: Buffer = Buffer.alloc(0);

  constructor(startup: boolean) {
    this.#startup = startup;
  }

  *push(chunk: Buffer): Generator<{ readonly bytes: Buffer; readonly startup: boolean }> {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      const head = this.#startup ? 0 : 1;
      if (this.#held.length < head + 4) return;
      const length = head + this.#held.readInt32BE(head);
      if (this.#held.length < length) return;
      yield { bytes: this.#held.subarray(0, length), startup: this.#startup };
      this.#startup = false;
      this.#held = this.#held.subarray(length);
    }
  }
}
