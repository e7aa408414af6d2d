/** How often a console login was tried, by networks of clients. Takes addresses and times; refuses nothing itself. In memory, and bounded. */
import { clientNetwork } from '../kit/address.ts';
import { limits } from '../config/limits.ts';

const minuteMs = 60_000;

export class LoginTries {
  /** The times of the last attempts by network; the networks in the order of their last attempt. */
  readonly #times = new Map<string, readonly number[]>();

  /** Whether one more attempt may be made from this address; if so, it is counted until it `succeeded`. */
  try(address: string, nowMs: number): boolean {
    const network = clientNetwork(address);
    const recent = (this.#times.get(network) ?? []).filter((at) => nowMs - at < minuteMs);
    if (recent.length >= limits.consoleTriesPerMinuteMax) return false;
    this.#times.delete(network);
    this.#times.set(network, [...recent, nowMs]);
    if (this.#times.size > limits.consoleTriersMax) {
      const [oldest = ''] = this.#times.keys();
      this.#times.delete(oldest);
    }
    return true;
  }

  /** The attempt of this time was no wrong one. */
  succeeded(address: string, atMs: number): void {
    const network = clientNetwork(address);
    const tries = [...(this.#times.get(network) ?? [])];
    const at = tries.indexOf(atMs);
    if (at === -1) return;
    tries.splice(at, 1);
    this.#times.set(network, tries);
  }
}
