/**
 * Remembers relations by the names that applications give them. Takes a function that looks a relation up and one that turns
 * what it found into a Target for a write mode; returns Targets, at once if the relation is known. A relation that was found
 * is remembered briefly, one that was not is looked up again. Refuses with what the lookup refuses with.
 */
import type { Intake, Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';

export interface KnownOptions<Row, Mode> {
  /** Throws Refused, or the engine's error. */
  readonly look: (name: string) => Promise<Row>;
  /** Throws Refused. */
  readonly toTarget: (name: string, row: Row, mode: Mode) => Target;
  readonly limits: Pick<Limits, 'relationsMax' | 'relationAgeMs'>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

interface Known<Row, Mode> {
  readonly row: Row;
  readonly until: number;
  /** By mode, so that a relation that did not change is the same object. */
  readonly targets: Map<Mode, Target>;
}

export class KnownRelations<Row, Mode> {
  readonly #options: KnownOptions<Row, Mode>;
  /** In the order in which they were found: the first is the oldest. */
  readonly #known = new Map<string, Known<Row, Mode>>();
  readonly #looking = new Map<string, Promise<Known<Row, Mode>>>();

  constructor(options: KnownOptions<Row, Mode>) {
    this.#options = options;
  }

  /** Returns at once what is remembered. Throws Refused, or the engine's error. */
  find(name: string, mode: Mode): Target | Promise<Target> {
    const known = this.#remembered(name);
    if (known !== null) return this.#targetOf(name, known, mode);
    return this.#lookTogether(name).then((found) => this.#targetOf(name, found, mode));
  }

  #targetOf(name: string, known: Known<Row, Mode>, mode: Mode): Target {
    let target = known.targets.get(mode);
    if (target === undefined) {
      target = this.#options.toTarget(name, known.row, mode);
      known.targets.set(mode, target);
    }
    return target;
  }

  /** Called when the engine has said that the relation has changed. */
  forget(name: string): void {
    this.#known.delete(name);
    this.#looking.delete(name);
  }

  #remembered(name: string): Known<Row, Mode> | null {
    const known = this.#known.get(name);
    return known !== undefined && known.until > this.#options.clock() ? known : null;
  }

  #remember(name: string, row: Row): Known<Row, Mode> {
    const { limits, clock } = this.#options;
    const before = this.#known.get(name);
    // The Targets of a relation that did not change stay as they are.
    const same = before !== undefined && JSON.stringify(before.row) === JSON.stringify(row);
    const targets = same ? before.targets : new Map<Mode, Target>();
    const known = { row, until: clock() + limits.relationAgeMs, targets };
    this.#known.delete(name);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size >= limits.relationsMax) this.#known.delete(oldest);
    this.#known.set(name, known);
    return known;
  }

  /** One lookup serves all callers that ask at the same time. A relation that it did not find may have been created since it began. */
  async #lookTogether(name: string): Promise<Known<Row, Mode>> {
    const underway = this.#looking.get(name);
    if (underway !== undefined) {
      try {
        return await underway;
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
      }
      // A lookup that another waiting caller has begun since is as good as a new one.
      const next = this.#looking.get(name);
      if (next !== undefined && next !== underway) return next;
    }
    const look: Promise<Known<Row, Mode>> = this.#options.look(name).then((row) => {
      // A relation that was forgotten meanwhile may have changed since it was looked up.
      const isCurrent = this.#looking.get(name) === look;
      return isCurrent ? this.#remember(name, row) : { row, until: 0, targets: new Map() };
    });
    this.#looking.set(name, look);
    try {
      return await look;
    } finally {
      if (this.#looking.get(name) === look) this.#looking.delete(name);
    }
  }
}

/** What a gateway takes of a request: one JSON document, whose keys fill the columns of the same name. */
export const plainIntake: Intake = {
  format: 'json',
  batched: false,
  document: null,
  unknown: 'ignore',
  includes: [],
  hiddenHeaders: new Set(),
};

export function notFound(name: string): Refused {
  return new Refused('relation_not_found', `no such table "${name}"`);
}

export function notWritable(name: string, why: string): Refused {
  return new Refused('relation_not_writable', `"${name}" ${why}`);
}

export function keyMissing(name: string): Refused {
  return new Refused('key_missing', `"${name}" has no primary key that a row could say`);
}
