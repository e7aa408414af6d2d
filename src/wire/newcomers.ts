/**
 * Clients of the SQL door that are not authenticated yet. Bounded in number; when all places are taken, who comes next
 * gets the place of another one: of the network (an address, of IPv6 a /64) that has most of them, the client that has
 * been silent for longest. So who holds many places loses his own, and behind one address (a pooler, a proxy) who says
 * what he wants without a pause is in before his turn to leave comes. Touches nothing but the clients that it was given.
 */
export interface Newcomer {
  readonly network: string;
  /** Its place is another one's now. */
  makeWay(): void;
}

export class Newcomers {
  readonly #max: number;
  /** Of each network those that are silent for longest first, with the number of the step that each came last. */
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

  /** It has come a step further: a part of what is asked of it is there. */
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
