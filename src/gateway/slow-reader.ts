/**
 * Cuts off slow readers. Takes a response and its size, and destroys it if its reader pauses for too long, or is too
 * slow overall: a result is held until it is read. Touches only that response.
 */
import type { ServerResponse } from 'node:http';
import { limits } from '../config/limits.ts';

export class SlowReader {
  readonly #response: ServerResponse;
  readonly #pauseMs: number;
  readonly #wholeMs: number;
  #pause: NodeJS.Timeout | null = null;

  /** `pauseMs`: how long its reader may pause. */
  constructor(response: ServerResponse, bytes: number, pauseMs: number) {
    this.#response = response;
    this.#pauseMs = pauseMs;
    this.#wholeMs = pauseMs + (bytes / limits.gatewayReadBytesPerSecondMin) * 1_000;
    // With several answers on one connection, the earlier ones are read first.
    if (response.socket === null) response.once('socket', () => this.#begin());
    else this.#begin();
  }

  /** Another piece was requested. */
  goesOn(): void {
    this.#pause?.refresh();
  }

  #begin(): void {
    const response = this.#response;
    if (response.destroyed || response.socket?.destroyed === true) return;
    const cut = (): void => void response.destroy();
    const pause = setTimeout(cut, this.#pauseMs);
    const whole = setTimeout(cut, this.#wholeMs);
    this.#pause = pause;
    response.once('close', () => {
      clearTimeout(pause);
      clearTimeout(whole);
    });
  }
}
