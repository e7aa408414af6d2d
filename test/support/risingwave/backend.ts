/** The stand-in's own connection to PostgreSQL, message by message. Takes messages, returns those that are received. */
import type { Socket } from 'node:net';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';

export interface Message {
  readonly type: string;
  /** Including its type and length. */
  readonly bytes: Buffer;
}

/** Cuts a stream of bytes into messages. */
export class Messages {
  #rest: Buffer = Buffer.alloc(0);

  *push(chunk: Buffer): Generator<Message> {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (this.#rest.length >= 5) {
      const length = 1 + this.#rest.readUInt32BE(1);
      if (this.#rest.length < length) return;
      yield { type: String.fromCharCode(this.#rest[0] ?? 0), bytes: this.#rest.subarray(0, length) };
      this.#rest = this.#rest.subarray(length);
    }
  }
}

export class Backend {
  readonly processId: number;
  readonly secretKey: number;
  readonly #socket: Socket;
  readonly #read = new Messages();
  readonly #come: Message[] = [];
  #waiting: ((message: Message | null) => void) | null = null;
  #closed = false;

  private constructor(client: Client) {
    const { processID, secretKey, connection } = client as unknown as {
      processID: number;
      secretKey: number;
      connection: { stream: Socket };
    };
    this.processId = processID;
    this.secretKey = secretKey;
    this.#socket = connection.stream;
    // `pg` has logged in, and does not see what follows.
    this.#socket.removeAllListeners('data');
    this.#socket.on('data', (chunk: Buffer) => {
      this.#come.push(...this.#read.push(chunk));
      this.#give();
    });
    this.#socket.on('close', () => {
      this.#closed = true;
      this.#give();
    });
  }

  static async connect(config: ClientConfig): Promise<Backend> {
    const client = new Client(config);
    client.on('error', () => undefined);
    await client.connect();
    return new Backend(client);
  }

  write(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  /** null: there are no more. */
  next(): Promise<Message | null> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#give();
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #give(): void {
    if (this.#waiting === null || (this.#come.length === 0 && !this.#closed)) return;
    const resolve = this.#waiting;
    this.#waiting = null;
    resolve(this.#come.shift() ?? null);
  }
}
