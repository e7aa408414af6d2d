/**
 * Clients of the WebSocket door, on the real `ws`. `WsClient` is one connection that does as it is told; `WsSender` keeps
 * every batch until it is acknowledged, reconnects when its connection ends, and resends unacknowledged batches.
 */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { WebSocket } from 'ws';

export interface Item {
  readonly op: 'insert' | 'upsert' | 'update' | 'delete';
  readonly data: unknown;
}

export interface WsOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Signs the init frame: the header's name, and the key of `sha256=<hmac in hex>` over the frame. */
  readonly sign?: { readonly header: string; readonly key: string };
  /** For the init frame, ms since 1970. */
  readonly timestamp?: number;
}

export interface WsEnd {
  readonly code: number;
  /** The reason of a fatal message, if one was received. */
  readonly fatal: string | null;
  /** Acknowledged ids, in the order of their acks. */
  readonly acks: readonly string[];
}

export class WsClient {
  readonly ws: WebSocket;
  /** Resolves once the connection is closed, for whatever reason. */
  readonly ended: Promise<WsEnd>;
  readonly acks: string[] = [];
  readonly #options: WsOptions;
  readonly #init: string;
  #fatal: string | null = null;
  #onAck: (id: string) => void = () => undefined;

  /** Opens the connection; rejects if the handshake is refused, with the status in the message. */
  static async connect(url: string, options: WsOptions = {}): Promise<WsClient> {
    const client = new WsClient(url, options);
    await once(client.ws, 'open');
    return client;
  }

  /** Opens the connection and sends the init frame, to which there is no answer. */
  static async open(url: string, options: WsOptions = {}): Promise<WsClient> {
    const client = await WsClient.connect(url, options);
    client.init();
    return client;
  }

  constructor(url: string, options: WsOptions = {}) {
    this.#options = options;
    this.#init = JSON.stringify({ type: 'init', timestamp: options.timestamp ?? Date.now() });
    const headers = { ...options.headers, ...this.#signature() };
    this.ws = new WebSocket(url, { headers, perMessageDeflate: false });
    this.ws.on('message', (data: Buffer) => this.#message(data.toString()));
    this.ws.on('error', () => undefined);
    this.ended = new Promise((resolve) =>
      this.ws.once('close', (code) => resolve({ code, fatal: this.#fatal, acks: this.acks })),
    );
  }

  init(): void {
    this.ws.send(this.#init);
  }

  send(id: number | bigint | string, items: readonly Item[]): void {
    this.ws.send(batchText(id, items));
  }

  onAck(heard: (id: string) => void): void {
    this.#onAck = heard;
  }

  /** Resolves once this many batches were acknowledged; rejects if the connection ends before. */
  async acked(count: number): Promise<void> {
    while (this.acks.length < count) {
      const ended = this.ended.then(({ code, fatal }) => {
        throw new Error(`closed with ${code} after ${this.acks.length} acks: ${fatal}`);
      });
      await Promise.race([once(this.ws, 'message'), ended]);
    }
  }

  close(): Promise<WsEnd> {
    this.ws.close();
    return this.ended;
  }

  /** Cuts the connection, as a crash does. */
  kill(): Promise<WsEnd> {
    this.ws.terminate();
    return this.ended;
  }

  #signature(): Record<string, string> {
    const { sign } = this.#options;
    if (sign === undefined) return {};
    return { [sign.header]: `sha256=${createHmac('sha256', sign.key).update(this.#init).digest('hex')}` };
  }

  #message(text: string): void {
    // Ids are exact beyond 2^53, so they are taken from the text.
    const ack = /^\{"ack":(\d+)\}$/.exec(text)?.[1];
    if (ack !== undefined) {
      this.acks.push(ack);
      this.#onAck(ack);
    } else this.#fatal = (JSON.parse(text) as { fatal: string }).fatal;
  }
}

export function batchText(id: number | bigint | string, items: readonly Item[]): string {
  return `{"dml_batch_id":${id},"items":${JSON.stringify(items)}}`;
}

export class WsSender {
  readonly #url: () => string | null;
  readonly #options: WsOptions;
  /** Unacknowledged batches, in order. */
  readonly #unacked: { readonly id: string; readonly text: string }[] = [];
  /** Reasons of all fatal messages. */
  readonly fatals: string[] = [];
  #client: WsClient | null = null;
  #next = 1n;
  #stopped = false;
  #wake: () => void = () => undefined;
  readonly #running: Promise<void>;

  /** Connects whenever `url` returns one, until `stop`. */
  constructor(url: () => string | null, options: WsOptions = {}) {
    this.#url = url;
    this.#options = options;
    this.#running = this.#run();
  }

  get unacked(): number {
    return this.#unacked.length;
  }

  /** Sends a batch now, or once there is a connection. */
  send(items: readonly Item[]): void {
    const id = String(this.#next++);
    const text = batchText(id, items);
    this.#unacked.push({ id, text });
    if (this.#client?.ws.readyState === WebSocket.OPEN) this.#client.ws.send(text);
  }

  /** Resolves once everything sent is acknowledged. */
  async drained(): Promise<void> {
    while (this.#unacked.length > 0) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  /** Cuts the present connection; another one follows. */
  kill(): void {
    this.#client?.ws.terminate();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#client?.ws.terminate();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const url = this.#url();
      const client = url === null ? null : await WsClient.open(url, this.#options).catch(() => null);
      if (client === null) {
        await new Promise((resolve) => setImmediate(resolve));
        continue;
      }
      this.#client = client;
      client.onAck((id) => this.#acked(id));
      for (const { text } of this.#unacked) client.ws.send(text);
      if (this.#stopped) client.ws.terminate();
      const { fatal } = await client.ended;
      if (fatal !== null) this.fatals.push(fatal);
    }
  }

  #acked(id: string): void {
    if (this.#unacked[0]?.id !== id) throw new Error(`ack ${id} is out of order`);
    this.#unacked.shift();
    if (this.#unacked.length === 0) this.#wake();
  }
}
