/**
 * Sends a stored request again: with the headers that were kept and, if a sender is given, a new signature. Takes requests and
 * their targets, returns answers. Never follows a redirect. Rejects with SendError if the secret cannot sign, or with another error if no answer arrives.
 */
import { SendClient } from '../../senders/send-client.ts';
import type { Answer } from '../../senders/send-client.ts';
import { SendError, secretOf } from '../../senders/send-options.ts';
import { senders } from '../../senders/senders.ts';
import type { Asked, Sender } from '../../senders/sender.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import type { StoredRequest } from './stored-requests.ts';

export interface ForwardOptions {
  /** The sender whose signature the requests get. */
  readonly sender?: string;
  readonly secret?: string;
  readonly secretFile?: string;
}

interface Signer {
  readonly sender: Sender;
  readonly key: string;
}

export class Forwarder {
  readonly #client = new SendClient();
  readonly #signer: Signer | null;
  readonly #io: CommandIo;

  private constructor(signer: Signer | null, io: CommandIo) {
    this.#signer = signer;
    this.#io = io;
  }

  static async open(options: ForwardOptions, io: CommandIo): Promise<Forwarder> {
    const { sender: name, secret, secretFile } = options;
    if (name === undefined) {
      if (secret !== undefined || secretFile !== undefined)
        throw new SendError('--secret needs --sender, which names the sender to sign for');
      return new Forwarder(null, io);
    }
    const sender = senders.get(name);
    if (sender === undefined) throw new SendError(`unknown sender "${name}": docs/senders lists them`);
    return new Forwarder({ sender, key: await secretOf({ secret, secretFile }, io) }, io);
  }

  send(stored: StoredRequest, to: string, contentType: string): Promise<Answer> {
    return this.#client.send(this.#signed(stored, to, contentType), this.#io.signal);
  }

  close(): void {
    this.#client.close();
  }

  #signed(stored: StoredRequest, to: string, contentType: string): Asked {
    const url = withQuery(to, stored.query);
    const { method, headers, body } = stored;
    if (this.#signer === null)
      return { method, url, body, headers: { 'content-type': contentType, ...headers } };
    const { sender, key } = this.#signer;
    const id = this.#io.random(16).toString('hex');
    const draft = { method, url, body, nowMs: this.#io.clock(), signingKey: key, id };
    try {
      const made = sender.sign(draft);
      const own = { 'content-type': sender.contentType, ...lower(sender.eventHeaders(draft)) };
      return {
        method,
        url: made.url ?? url,
        body: made.body ?? body,
        headers: { ...own, ...headers, ...lower(made.headers) },
      };
    } catch {
      // The error may quote the key.
      throw new SendError(`${sender.name} cannot sign with this secret: it must be ${sender.secret.what}`);
    }
  }
}

function lower(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function withQuery(to: string, query: string | null): string {
  if (query === null || query === '' || /[\s#]/.test(query)) return to;
  return `${to}${to.includes('?') ? '&' : '?'}${query}`;
}

export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return message === '' || message === undefined ? (code ?? String(error)) : message;
}
