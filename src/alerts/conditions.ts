/**
 * Which conditions hold, and which of them must be reported. Takes what is wrong at a moment, returns what has to be told; the caller
 * confirms what it has told. One condition is a rule and its labels, and is in one of these states:
 *
 *   pending   it holds, but not for long enough. Over at once when it no longer holds.
 *   firing    it has held for `holdMs` of its rule. To be told unless it was.
 *   clearing  it does not hold, but did within `alertClearMs`: still firing, so that an intermittent condition is told once.
 *   over      it has not held for `alertClearMs`. If its firing was told, its end is to be told; then it is forgotten.
 *
 * A condition that begins and ends while nobody can be told is never told: there is no queue, only the difference from what was told.
 */
import { limits } from '../config/limits.ts';
import type { SavedCondition } from './state-file.ts';
import type { Labels, AlertRule, AlertFinding } from './rules.ts';

export interface AlertCondition {
  readonly rule: AlertRule;
  readonly labels: Labels;
  readonly sinceMs: number;
  says: string;
  state: 'pending' | 'firing' | 'clearing' | 'over';
  /** When it last held. */
  lastMs: number;
  /** The receiver was told that it is firing. */
  told: boolean;
}

/** Identifies a condition, here and in the database. */
export function keyOf(rule: string, labels: Labels): string {
  return JSON.stringify([rule, labels]);
}

export class Conditions {
  readonly #all = new Map<string, AlertCondition>();

  /** Takes what is wrong at `nowMs` by all rules. Returns what is to be told, in the order in which it began. */
  step(
    seen: readonly { readonly rule: AlertRule; readonly wrong: readonly AlertFinding[] }[],
    nowMs: number,
  ): readonly AlertCondition[] {
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

  /** Restores what was told before a restart, as if it had held until now. */
  restore(kept: readonly SavedCondition[], rules: readonly AlertRule[], nowMs: number): void {
    for (const { rule: name, labels, says, sinceMs } of kept) {
      const rule = rules.find((it) => it.name === name);
      const key = keyOf(name, labels);
      if (rule === undefined || this.#all.has(key) || this.#all.size >= limits.alertConditionsMax) continue;
      this.#all.set(key, { rule, labels, says, sinceMs, lastMs: nowMs, state: 'firing', told: true });
    }
  }

  /** Conditions that were told and are not over. */
  get standing(): readonly AlertCondition[] {
    return [...this.#all.values()].filter(({ told, state }) => told && state !== 'over');
  }

  /** Conditions that were told, until their end is told too. */
  get kept(): readonly SavedCondition[] {
    return [...this.#all.values()]
      .filter(({ told }) => told)
      .map(({ rule, labels, says, sinceMs }) => ({ rule: rule.name, labels, says, sinceMs }));
  }

  /** The receiver was told these in their present state. */
  told(conditions: readonly AlertCondition[]): void {
    for (const condition of conditions) condition.told = condition.state !== 'over';
    for (const [key, { state, told }] of this.#all) if (state === 'over' && !told) this.#all.delete(key);
  }

  #begin(
    key: string,
    {
      rule,
      labels,
      says,
      nowMs,
    }: Pick<AlertCondition, 'rule' | 'labels' | 'says'> & { readonly nowMs: number },
  ): AlertCondition | null {
    if (this.#all.size >= limits.alertConditionsMax) return null;
    const condition: AlertCondition = {
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
