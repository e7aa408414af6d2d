/** Checkpoints on request, in the background. */
import { Client, type ClientConfig } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import { cutOff, hangUp } from './close-client.ts';

/** Only `close` waits for the result: without the checkpoint a later start has more of the log to replay, nothing else. */
export class Checkpoints implements Closable {
  readonly #clientConfig: () => ClientConfig;
  readonly #closing = new AbortController();
  #running: Promise<void> | null = null;

  constructor(clientConfig: () => ClientConfig) {
    this.#clientConfig = clientConfig;
  }

  /** While one is running, another one is not needed. */
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
