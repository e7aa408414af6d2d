/** An HTTP client that sends exactly the given bytes, and parses answers strictly. */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

export class RawClient {
  readonly socket: Socket;
  /** Resolves once the server has ended or reset the connection. */
  readonly closed: Promise<void>;
  /** The connection below `socket`. */
  readonly #under: Socket;
  #received = '';
  #ended = false;
  #wake: () => void = () => undefined;

  static async connect(port: number, over: 'tcp' | 'tls' = 'tcp'): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    await once(socket, 'connect');
    if (over === 'tcp') return new RawClient(socket);
    const secure = connectTls({ socket, rejectUnauthorized: false });
    await once(secure, 'secureConnect');
    return new RawClient(secure, socket);
  }

  /** Resolves once connections to `port` are refused: a server that is stopping still accepts those in its backlog. */
  static async refused(port: number): Promise<void> {
    for (let attempt = 0; attempt < 1_000; attempt++) {
      const code = await RawClient.connect(port).then(
        (client) => client.destroy(),
        (error: NodeJS.ErrnoException) => error.code,
      );
      if (code === 'ECONNREFUSED') return;
    }
    throw new Error(`port ${port} still accepts connections`);
  }

  constructor(socket: Socket, under: Socket = socket) {
    this.socket = socket;
    this.#under = under;
    this.closed = new Promise((resolve) => {
      const end = () => {
        this.#ended = true;
        this.#wake();
        resolve();
      };
      socket.on('data', (chunk: Buffer) => {
        this.#received += chunk.toString('latin1');
        this.#wake();
      });
      socket.on('error', end);
      socket.on('end', end);
      socket.on('close', end);
    });
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes, 'latin1');
  }

  /** Received bytes that belong to no answer read so far. */
  get unread(): string {
    return this.#received;
  }

  /** The next answer; null if the connection ends before one is complete. */
  async answer(): Promise<RawAnswer | null> {
    for (;;) {
      const answer = this.#takeAnswer();
      if (answer !== null) return answer;
      if (this.#ended) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Drops the connection, as a crashing peer does. */
  reset(): void {
    this.#under.resetAndDestroy();
  }

  #takeAnswer(): RawAnswer | null {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end === -1) return null;
    const head = this.#received.slice(0, end);
    const status = /^HTTP\/1\.1 (\d{3}) [\x20-\x7e]*$/m.exec(head.split('\r\n')[0] ?? '');
    if (status === null) throw new Error(`no status line: ${JSON.stringify(head.slice(0, 200))}`);
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    if (this.#received.length < end + 4 + length) return null;
    const body = this.#received.slice(end + 4, end + 4 + length);
    this.#received = this.#received.slice(end + 4 + length);
    return { status: Number(status[1]), head, body };
  }
}

/** A POST with a body of known length. */
export function post(path: string, body: string, headers = ''): string {
  return `POST ${path} HTTP/1.1\r\nHost: h\r\n${headers}Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n\r\n${body}`;
}

export function chunked(path: string, chunks: readonly string[], headers = '', trailers = ''): string {
  const coded = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
  return `POST ${path} HTTP/1.1\r\nHost: h\r\n${headers}Transfer-Encoding: chunked\r\n\r\n${coded}0\r\n${trailers}\r\n`;
}
