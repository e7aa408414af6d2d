/**
 * Which conditions hold, and which of them are told. Takes what is wrong at a moment, gives what has to be told; what was told is said
 * by whoever told it. One condition is a rule and its labels, and is in one of these states:
 *
 *   pending   it is so, and not for long enough. Over at once when it is not.
 *   firing    it has been so for `holdMs` of its rule. To be told unless it was.
 *   clearing  it is not so any more, and was within `alertClearMs`: firing still, so that what comes and goes is told once.
 *   over      it has not been so for `alertClearMs`. To be told if it was told that it is firing, and forgotten then.
 *
 * What begins and ends while nobody can be told is never told: there is no queue, only what differs from what was told.
 */
import { limits } from '../../tables/limits.ts';
import type { Kept } from './kept.ts';
import type { Labels, Rule, Wrong } from './rules.ts';

export interface Condition {
  readonly rule: Rule;
  readonly labels: Labels;
  readonly sinceMs: number;
  says: string;
  state: 'pending' | 'firing' | 'clearing' | 'over';
  /** When it was so for the last time. */
  lastMs: number;
  /** Somebody was told that it is firing. */
  told: boolean;
}

/** By which a condition is known, here and in the database. */
export function keyOf(rule: string, labels: Labels): string {
  return JSON.stringify([rule, labels]);
}

export class Conditions {
  readonly #all = new Map<string, Condition>();

  /** What is so at `nowMs`, of all rules. Gives what is to be told, in the order in which it began. */
  step(
    seen: readonly { readonly rule: Rule; readonly wrong: readonly Wrong[] }[],
    nowMs: number,
  ): readonly Condition[] {
    const now = new Set<string>();
    for (const { rule, wrong } of seen) {
      for (const { labels, says } of wrong) {
        const key = keyOf(rule.name, labels);
        const known = this.#all.get(key) ?? this.#begin(key, { rule, labels, says, nowMs });
        if (known === null) continue;
        now.add(key);
        Object.assign(known, { says, lastMs: nowMs });
        const isLong = nowMs - known.sinceMs >= rule.holdMs;
        if (known.state !== 'pending' || isLong) known.state = 'firing';
      }
    }
    for (const [key, condition] of this.#all) {
      if (now.has(key)) continue;
      if (condition.state === 'pending') condition.state = 'over';
      else condition.state = nowMs - condition.lastMs >= limits.alertClearMs ? 'over' : 'clearing';
      if (condition.state === 'over' && !condition.told) this.#all.delete(key);
    }
    return [...this.#all.values()].filter(
      ({ state, told }) => (state === 'over') === told && state !== 'pending',
    );
  }

  /** What was told before a restart: it was so until now, as far as anybody knows. */
  restore(kept: readonly Kept[], rules: readonly Rule[], nowMs: number): void {
    for (const { rule: name, labels, says, sinceMs } of kept) {
      const rule = rules.find((it) => it.name === name);
      const key = keyOf(name, labels);
      if (rule === undefined || this.#all.has(key) || this.#all.size >= limits.alertConditionsMax) continue;
      this.#all.set(key, { rule, labels, says, sinceMs, lastMs: nowMs, state: 'firing', told: true });
    }
  }

  /** What is so, as far as anybody was told. */
  get standing(): readonly Condition[] {
    return [...this.#all.values()].filter(({ told, state }) => told && state !== 'over');
  }

  /** What was told and is not over. */
  get kept(): readonly Kept[] {
    return [...this.#all.values()]
      .filter(({ told }) => told)
      .map(({ rule, labels, says, sinceMs }) => ({ rule: rule.name, labels, says, sinceMs }));
  }

  /** These were told as they are. */
  told(conditions: readonly Condition[]): void {
    for (const condition of conditions) condition.told = condition.state !== 'over';
    for (const [key, { state, told }] of this.#all) if (state === 'over' && !told) this.#all.delete(key);
  }

  #begin(
    key: string,
    { rule, labels, says, nowMs }: Pick<Condition, 'rule' | 'labels' | 'says'> & { readonly nowMs: number },
  ): Condition | null {
    if (this.#all.size >= limits.alertConditionsMax) return null;
    const condition: Condition = {
      rule,
      labels,
      says,
      sinceMs: nowMs,
      lastMs: nowMs,
      state: 'pending',
      told: false,
    };
    this.#all.set(key, condition);
    return condition;
  }
}
