/** Checkpoints that somebody asks for, beside everything else. */
import { Client, type ClientConfig } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../tables/limits.ts';
import { cutOff, hangUp } from './hang-up.ts';

/** What comes of it is not waited for but by `close`: without it a later start has more of the log to replay, and that is all. */
export class Checkpoints implements Closable {
  readonly #clientConfig: () => ClientConfig;
  readonly #closing = new AbortController();
  #running: Promise<void> | null = null;

  constructor(clientConfig: () => ClientConfig) {
    this.#clientConfig = clientConfig;
  }

  /** While one runs, another one is not wanted. */
  ask(): void {
    this.#running ??= this.#run()
      .catch(() => undefined)
      .finally(() => (this.#running = null));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const client = new Client({ ...this.#clientConfig(), connectionTimeoutMillis: limits.engineAnswerMs });
    client.on('error', () => undefined);
    const abort = (): void => cutOff(client);
    this.#closing.signal.addEventListener('abort', abort, { once: true });
    try {
      await client.connect();
      if (!this.#closing.signal.aborted) await client.query('checkpoint');
    } finally {
      this.#closing.signal.removeEventListener('abort', abort);
      await hangUp(client);
    }
  }
}
