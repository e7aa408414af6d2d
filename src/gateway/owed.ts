/** The answers that are not written yet. Takes responses, gives how many there are; closes their connections when told to. */
import type { ServerResponse } from 'node:http';

export class Owed {
  readonly #responses = new Set<ServerResponse>();
  #draining = false;

  get size(): number {
    return this.#responses.size;
  }

  add(response: ServerResponse): void {
    if (this.#draining) response.shouldKeepAlive = false;
    const responses = this.#responses.add(response);
    response.on('close', () => responses.delete(response));
  }

  /** A connection that stayed open behind its last answer would be waited for. */
  drain(): void {
    this.#draining = true;
    for (const response of this.#responses) response.shouldKeepAlive = false;
  }
}
