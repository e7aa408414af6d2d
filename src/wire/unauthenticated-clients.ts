/**
 * Clients of the SQL door that are not authenticated yet. Their number is bounded; when all places are taken, the next
 * client takes the place of another: in the network (an address, or a /64 for IPv6) that has most of them, the client that
 * has been silent for longest. So a client that holds many places loses its own, and behind one address (a pooler, a proxy)
 * a client that logs in without a pause is in before its turn to leave comes. Touches only the clients that it was given.
 */
export interface Newcomer {
  readonly network: string;
  /** Its place has been given to another client. */
  makeWay(): void;
}

export class Newcomers {
  readonly #max: number;
  /** For each network, the clients that have been silent for longest first, with the number of each one's last step. */
  readonly #networks = new Map<string, Map<Newcomer, number>>();
  #size = 0;
  #steps = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  add(newcomer: Newcomer): void {
    const there = this.#networks.get(newcomer.network) ?? new Map<Newcomer, number>();
    this.#networks.set(newcomer.network, there);
    there.set(newcomer, ++this.#steps);
    this.#size += 1;
    if (this.#size > this.#max) this.evict();
  }

  /** Called when the client has taken a further step: a part of what it has to send has arrived. */
  moved(newcomer: Newcomer): void {
    const there = this.#networks.get(newcomer.network);
    if (there?.delete(newcomer) === true) there.set(newcomer, ++this.#steps);
  }

  remove(newcomer: Newcomer): void {
    const there = this.#networks.get(newcomer.network);
    if (there?.delete(newcomer) !== true) return;
    this.#size -= 1;
    if (there.size === 0) this.#networks.delete(newcomer.network);
  }

  /** Makes one of them leave; false: there is none. */
  evict(): boolean {
    let [first, most, step]: [Newcomer | null, number, number] = [null, 0, 0];
    for (const there of this.#networks.values()) {
      if (there.size < most) continue;
      for (const [newcomer, its] of there) {
        if (there.size > most || its < step) [first, most, step] = [newcomer, there.size, its];
        break;
      }
    }
    if (first === null) return false;
    this.remove(first);
    first.makeWay();
    return true;
  }
}
