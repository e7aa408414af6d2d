/**
 * Floods of one kind of log line, thinned: a burst of each kind goes through, then so many a second; what is left out is
 * counted and told when a line of the kind may be written again. Takes the kind of a line, says whether it may be written;
 * time is an argument of its making. Holds one small entry for each kind, of which there are as many as observations.
 */
export interface ThinnedOptions {
  readonly burst: number;
  readonly perSecond: number;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** setTimeout, which must not keep the process alive. */
  readonly after: (run: () => void, ms: number) => void;
  /** `lines` of a kind were left out since this was said last. */
  readonly leftOut: (kind: string, lines: number) => void;
}

interface Flow {
  /** How many lines may be written now, at the time `atMs`. */
  allowance: number;
  atMs: number;
  leftOut: number;
}

export class Thinned {
  readonly #options: ThinnedOptions;
  readonly #flows = new Map<string, Flow>();

  constructor(options: ThinnedOptions) {
    this.#options = options;
  }

  passes(kind: string): boolean {
    const { burst, perSecond, clock, after } = this.#options;
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
    // Once for all that are left out in this second.
    if (flow.leftOut === 1) after(() => this.#tell(kind, flow), 1_000);
    return false;
  }

  /** Tells all that has not been told, as before the end of the process. */
  tellAll(): void {
    for (const [kind, flow] of this.#flows) this.#tell(kind, flow);
  }

  #tell(kind: string, flow: Flow): void {
    const { leftOut } = flow;
    flow.leftOut = 0;
    if (leftOut > 0) this.#options.leftOut(kind, leftOut);
  }
}
