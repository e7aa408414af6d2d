/**
 * Finds out which of a COPY's members the engine refuses, so that only their senders hear of it. Pure: the attempts
 * are made by the function it is given.
 *
 * The engine names the row in most cases: that member is refused and the rest goes again. When it names none, or
 * has named `namedRefusalsMax` already, the group is cut in halves: at most 2n − 1 further attempts for n members.
 */
import type { Outcome, Rows } from '../flow.ts';
import { refusal } from '../refusals.ts';
import { chainBroken, Chains } from './chains.ts';
import type { Failed } from './round-trip.ts';
import type { Attempt } from './session.ts';

export interface IsolateRooms {
  attempt(members: readonly Rows[]): Promise<Attempt>;
  /** What a failed attempt means: this row is refused, or all of the members share one outcome. */
  judge(failed: Failed): Promise<{ readonly blame: 'row' | 'group'; readonly outcome: Outcome }>;
  /** The 1-based row of the group that the engine named, or null. */
  lineOf(failed: Failed): number | null;
  readonly namedRefusalsMax: number;
}

/** One outcome per member, in order. */
export async function commitIsolating(
  rooms: IsolateRooms,
  members: readonly Rows[],
): Promise<readonly Outcome[]> {
  const isolating = new Isolating(rooms);
  const places = members.map((rows, place): Place => ({ rows, place, outcome: null }));
  await isolating.run(places, rooms.namedRefusalsMax);
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
  readonly #rooms: IsolateRooms;

  constructor(rooms: IsolateRooms) {
    this.#rooms = rooms;
  }

  async run(given: readonly Place[], namedLeft: number): Promise<void> {
    for (const place of given)
      if (this.chains.isBroken(place.rows, place.place)) this.#settle(place, chainBroken);
    const places = given.filter(({ outcome }) => outcome === null);
    if (places.length === 0) return;
    const attempt = await this.#rooms.attempt(places.map(({ rows }) => rows));
    if (attempt.kind === 'committed') {
      for (const place of places) this.#settle(place, { kind: 'committed', rows: place.rows.count });
      return;
    }
    if (attempt.kind === 'lost') return places.forEach((place) => this.#settle(place, lost));
    const { blame, outcome } = await this.#rooms.judge(attempt);
    const line = this.#rooms.lineOf(attempt);
    const named = line === null || blame === 'group' ? undefined : atLine(places, line);
    if (named !== undefined && (namedLeft > 0 || places.length === 1)) {
      this.#settle(named.place, outcome.kind === 'aborted' ? { ...outcome, row: named.row } : outcome);
      return this.run(places, namedLeft - 1);
    }
    if (blame === 'group' || places.length === 1)
      return places.forEach((place) => this.#settle(place, outcome));
    const middle = places.length >> 1;
    await this.run(places.slice(0, middle), 0);
    await this.run(places.slice(middle), 0);
  }

  #settle(place: Place, outcome: Outcome): void {
    if (place.outcome !== null) return;
    place.outcome = outcome;
    if (outcome.kind !== 'committed') this.chains.break(place.rows, place.place);
  }
}

const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };

/** The member that holds the 1-based row `line` of what was tried, and which of its rows that is, from 0. */
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
