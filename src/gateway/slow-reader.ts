/**
 * Who reads an answer too slowly. Takes a response and how large it is, cuts it off when its reader reads nothing for a
 * while, or too slowly on the whole: a result is held until it is read. Touches that response alone.
 */
import type { ServerResponse } from 'node:http';
import { limits } from '../tables/limits.ts';

export class SlowReader {
  readonly #response: ServerResponse;
  readonly #pauseMs: number;
  readonly #wholeMs: number;
  #pause: NodeJS.Timeout | null = null;

  /** `pauseMs`: how long its reader may read nothing. */
  constructor(response: ServerResponse, bytes: number, pauseMs: number) {
    this.#response = response;
    this.#pauseMs = pauseMs;
    this.#wholeMs = pauseMs + (bytes / limits.gatewayReadBytesPerSecondMin) * 1_000;
    // Of several on one connection the answers before it are read first.
    if (response.socket === null) response.once('socket', () => this.#begin());
    else this.#begin();
  }

  /** Another piece is wanted. */
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
