/**
 * Thins out floods of one kind of log line: a burst of each kind passes, then a number per second; lines left out are
 * counted and reported when a line of the kind may be written again. Takes the kind of a line, returns whether it may be
 * written; the clock is an argument of the constructor. Holds one small entry for each kind of observation.
 */
/** When it is. */
export interface LogTiming {
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** setTimeout, without keeping the process alive. */
  readonly after: (run: () => void, ms: number) => void;
}

interface Flow {
  /** How many lines may be written, as of the time `atMs`. */
  allowance: number;
  atMs: number;
  leftOut: number;
}

export class ThrottledLog {
  readonly #burst: number;
  readonly #perSecond: number;
  readonly #timing: LogTiming;
  readonly #leftOut: (kind: string, lines: number) => void;
  readonly #flows = new Map<string, Flow>();

  /** `leftOut`: told that so many lines of a kind were left out since it was told last. */
  constructor(
    burst: number,
    perSecond: number,
    timing: LogTiming,
    leftOut: (kind: string, lines: number) => void,
  ) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#timing = timing;
    this.#leftOut = leftOut;
  }

  passes(kind: string): boolean {
    const { clock, after } = this.#timing;
    const [burst, perSecond] = [this.#burst, this.#perSecond];
    const nowMs = clock();
    let flow = this.#flows.get(kind);
    if (flow === undefined) {
      flow = { allowance: burst, atMs: nowMs, leftOut: 0 };
      this.#flows.set(kind, flow);
    }
    flow.allowance = Math.min(burst, flow.allowance + ((nowMs - flow.atMs) / 1_000) * perSecond);
    flow.atMs = nowMs;
    if (flow.allowance >= 1) {
      flow.allowance -= 1;
      return true;
    }
    flow.leftOut += 1;
    // Once for all lines left out in this second.
    if (flow.leftOut === 1) after(() => this.#tell(kind, flow), 1_000);
    return false;
  }

  /** Reports everything not yet reported, as before the process ends. */
  tellAll(): void {
    for (const [kind, flow] of this.#flows) this.#tell(kind, flow);
  }

  #tell(kind: string, flow: Flow): void {
    const { leftOut } = flow;
    flow.leftOut = 0;
    if (leftOut > 0) this.#leftOut(kind, leftOut);
  }
}
