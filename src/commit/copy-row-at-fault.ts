/**
 * Finds out which of a COPY's members the engine refuses, so that only their senders are refused. Pure: attempts
 * are made by the function it is given.
 *
 * The engine names the row in most cases: that member is refused and the rest goes again. If it names none, or
 * has named `namedRefusalsMax` already, or the row is not certainly at fault, the group is cut in halves: at
 * most 2n − 1 further attempts for n members. If no row is at fault, this continues only while parts can be stored.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import { chainBroken, Chains } from './chains.ts';
import type { Failed } from './round-trip.ts';
import type { StoreAttempt } from './interpret-reply.ts';

/** A group that is stored by COPY: DocumentGroup, and what tests put in its place. */
export interface TriedCopy {
  attempt(members: readonly Rows[]): Promise<StoreAttempt>;
  judge(failed: Failed): Promise<Judged>;
  /** Called before rows are refused that were only suspected: null, or the outcome of them all instead. */
  stands(): Promise<Outcome | null>;
  /** The 1-based row of the group that the engine named, or null. */
  lineOf(failed: Failed): number | null;
  readonly namedRefusalsMax: number;
  readonly fruitlessMax: number;
}

/**
 * What a failed attempt means, and the outcome of a member that fails with it alone. `row`: a row is refused. `suspect`: a row
 * is refused if it fails alone. `elsewhere`: no row is at fault, and some rows may be stored without others. `group`: the
 * outcome of all members.
 */
export interface Judged {
  readonly blame: 'row' | 'suspect' | 'elsewhere' | 'group';
  readonly outcome: Outcome;
}

/** One outcome per member, in order. */
export async function commitIsolating(
  group: TriedCopy,
  members: readonly Rows[],
): Promise<readonly Outcome[]> {
  const isolating = new Isolating(group);
  const places = members.map((rows, place): Place => ({ rows, place, outcome: null }));
  await isolating.run(places, group.namedRefusalsMax);
  await isolating.confirmSuspects();
  isolating.chains.end();
  return places.map(({ outcome }) => outcome ?? unreachable());
}

interface Place {
  readonly rows: Rows;
  readonly place: number;
  outcome: Outcome | null;
}

class Isolating {
  readonly chains = new Chains();
  readonly #group: TriedCopy;
  readonly #suspects: Place[] = [];
  /** Attempts since the last success that failed through no fault of a row. */
  #fruitless = 0;
  /** The outcome of the rest of the group, which is not tried. */
  #end: Outcome | null = null;

  constructor(group: TriedCopy) {
    this.#group = group;
  }

  async run(given: readonly Place[], namedLeft: number): Promise<void> {
    for (const place of given)
      if (this.chains.isBroken(place.rows, place.place)) this.#settle(place, chainBroken);
    const places = given.filter(({ outcome }) => outcome === null);
    if (places.length === 0) return;
    if (this.#end !== null) return this.#settleAll(places, this.#end);
    const attempt = await this.#group.attempt(places.map(({ rows }) => rows));
    if (attempt.kind === 'committed') {
      this.#fruitless = 0;
      for (const place of places) this.#settle(place, { kind: 'committed', rows: place.rows.count });
      return;
    }
    if (attempt.kind === 'lost') return this.#settleAll(places, lost);
    const { blame, outcome } = await this.#group.judge(attempt);
    if (blame === 'row') {
      const line = this.#group.lineOf(attempt);
      const named = line === null ? undefined : atLine(places, line);
      if (named !== undefined && (namedLeft > 0 || places.length === 1)) {
        this.#settle(named.place, outcome.kind === 'aborted' ? { ...outcome, row: named.row } : outcome);
        return this.run(places, namedLeft - 1);
      }
    }
    if (blame === 'elsewhere' && ++this.#fruitless >= this.#group.fruitlessMax) this.#end = outcome;
    if (blame === 'group' || places.length === 1 || this.#end !== null) {
      if (blame === 'suspect') this.#suspects.push(...places);
      return this.#settleAll(places, outcome);
    }
    const middle = places.length >> 1;
    await this.run(places.slice(0, middle), 0);
    await this.run(places.slice(middle), 0);
  }

  /** The table may have been replaced since the first row was suspected. */
  async confirmSuspects(): Promise<void> {
    if (this.#suspects.length === 0) return;
    const instead = await this.#group.stands();
    if (instead !== null) for (const place of this.#suspects) place.outcome = instead;
  }

  #settleAll(places: readonly Place[], outcome: Outcome): void {
    for (const place of places) this.#settle(place, outcome);
  }

  #settle(place: Place, outcome: Outcome): void {
    if (place.outcome !== null) return;
    place.outcome = outcome;
    if (outcome.kind !== 'committed') this.chains.break(place.rows, place.place);
  }
}

const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };

/** The member that holds the 1-based row `line` of an attempt, and which of its rows that is, from 0. */
function atLine(places: readonly Place[], line: number): { place: Place; row: number } | undefined {
  let before = 0;
  for (const place of places) {
    if (line > before && line <= before + place.rows.count) return { place, row: line - before - 1 };
    before += place.rows.count;
  }
  return undefined;
}

function unreachable(): never {
  throw new Error('isolate() settles every member');
}
