/**
 * Remembers relations by the names that applications give them. Takes what looks a relation up and turns
 * what it found into a Target for a write mode; returns Targets, at once if the relation is known. A relation that was found
 * is remembered briefly, one that was not is looked up again. Refuses with what the lookup refuses with.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import { Refused } from '../errors/refusals.ts';
import type { Lookup } from './find-relations.ts';

interface KnownRelation<Row, Mode> {
  readonly row: Row;
  /** When the engine was asked, by the clock. */
  readonly askedAtMs: number;
  /** By mode, so that a relation that did not change is the same object. */
  readonly targets: Map<Mode, Target>;
}

export class KnownRelations<Row, Mode> {
  readonly #lookup: Lookup<Row, Mode>;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  /** In the order in which they were found: the first is the oldest. */
  readonly #known = new Map<string, KnownRelation<Row, Mode>>();
  readonly #looking = new Map<string, Promise<KnownRelation<Row, Mode>>>();

  constructor(lookup: Lookup<Row, Mode>, context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#lookup = lookup;
    this.#context = context;
  }

  /**
   * Returns at once what is remembered, if the engine was asked after `sinceMs` of the clock. What it refuses rests on nothing older than the call.
   * Throws Refused, or the engine's error.
   */
  find(name: string, mode: Mode, sinceMs = -Infinity): Target | Promise<Target> {
    const known = this.#remembered(name, sinceMs);
    if (known === null) return this.#findAnew(name, mode, sinceMs);
    try {
      return this.#targetOf(name, known, mode);
    } catch {
      return this.#findAnew(name, mode, this.#context.clock());
    }
  }

  #remembered(name: string, sinceMs: number): KnownRelation<Row, Mode> | null {
    const { limits, clock } = this.#context;
    const known = this.#known.get(name);
    const isKnown = known !== undefined && known.askedAtMs >= sinceMs;
    return isKnown && clock() - known.askedAtMs < limits.relationAgeMs ? known : null;
  }

  #targetOf(name: string, known: KnownRelation<Row, Mode>, mode: Mode): Target {
    let target = known.targets.get(mode);
    if (target === undefined) {
      target = this.#lookup.toTarget(name, known.row, mode);
      known.targets.set(mode, target);
    }
    return target;
  }

  async #findAnew(name: string, mode: Mode, sinceMs: number): Promise<Target> {
    // Refused requests are many at a time, and cost a bounded part of the engine's time.
    const { clock, limits } = this.#context;
    const restMs = (this.#known.get(name)?.askedAtMs ?? -Infinity) + limits.catalogMissIntervalMs - clock();
    if (restMs > 0) await delay(restMs);
    for (;;) {
      const known = this.#remembered(name, sinceMs) ?? (await this.#lookTogether(name));
      // It may be a lookup that had begun before.
      if (known.askedAtMs >= sinceMs) return this.#targetOf(name, known, mode);
    }
  }

  #remember(name: string, row: Row, askedAtMs: number): KnownRelation<Row, Mode> {
    const { limits } = this.#context;
    const before = this.#known.get(name);
    // The Targets of a relation that did not change stay as they are.
    const same = before !== undefined && JSON.stringify(before.row) === JSON.stringify(row);
    const targets = same ? before.targets : new Map<Mode, Target>();
    const known = { row, askedAtMs, targets };
    this.#known.delete(name);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size >= limits.relationsMax) this.#known.delete(oldest);
    this.#known.set(name, known);
    return known;
  }

  /** One lookup serves all callers that ask at the same time. A relation that it did not find may have been created since it began. */
  async #lookTogether(name: string): Promise<KnownRelation<Row, Mode>> {
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
    const askedAtMs = this.#context.clock();
    const look: Promise<KnownRelation<Row, Mode>> = this.#lookup.look(name).then((row) => {
      // A relation that was forgotten meanwhile may have changed since it was looked up.
      const isCurrent = this.#looking.get(name) === look;
      return isCurrent ? this.#remember(name, row, askedAtMs) : { row, askedAtMs, targets: new Map() };
    });
    this.#looking.set(name, look);
    try {
      return await look;
    } finally {
      if (this.#looking.get(name) === look) this.#looking.delete(name);
    }
  }

  /** Called when the engine has said that the relation has changed. */
  forget(name: string): void {
    this.#known.delete(name);
    this.#looking.delete(name);
  }
}
