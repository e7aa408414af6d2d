/**
 * A receiver of `headgate deliver` that can be down: it keeps its port. Every request is verified by the package of Standard Webhooks, and kept with its
 * id, in the order in which the rows were first taken.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';

export const deliverySecret = `whsec_${Buffer.from('a secret of thirty-two bytes ...').toString('base64')}`;

/** Answers a request; `true`: the row was taken. */
export type Answering = (response: ServerResponse) => boolean;

/** `Row`: what the bodies hold. */
export class SignedReceiver<Row> {
  readonly attempts = new Map<string, number>();
  /** By webhook-id, in the order in which they were first taken. */
  readonly taken = new Map<string, Row>();
  readonly #fault: (row: Row, attempt: number) => Answering | undefined;
  #server: Server | null = null;
  #port = 0;
  readonly #webhook = new Webhook(deliverySecret);

  /** `fault`: what it does with the n-th request for a row in place of an empty 200. */
  constructor(fault: (row: Row, attempt: number) => Answering | undefined = () => undefined) {
    this.#fault = fault;
  }

  /** Returns its host with the port, the same each time. */
  async listen(): Promise<string> {
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part)).on('error', () => undefined);
      response.on('error', () => undefined);
      request.on('end', () => {
        const headers = request.headers as Record<string, string>;
        // Throws if the signature, or its time, is not right.
        const row = this.#webhook.verify(Buffer.concat(parts).toString(), headers) as Row;
        const id = headers['webhook-id'] ?? '';
        const attempt = (this.attempts.get(id) ?? 0) + 1;
        this.attempts.set(id, attempt);
        const fault = this.#fault(row, attempt);
        if (fault === undefined) response.end();
        const isTaken = fault?.(response) ?? true;
        if (isTaken && !this.taken.has(id)) this.taken.set(id, row);
      });
    }).listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
    return `127.0.0.1:${this.#port}`;
  }

  async close(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }
}
