/**
 * Finds out which of a group's members the engine refuses, so that only their senders hear of it. Pure: what is tried
 * is tried by the functions it is given.
 *
 * All members go together; nearly always that is all. When a row is refused they go again in order, each part of the
 * group on its own inside one transaction, and parts that fail are cut smaller until the members at fault stand alone.
 * The parts are tried in order, and a member is refused for good only when no row before it may still come: it may
 * need one of them. Rows of a chain never pass earlier rows of it, and are not tried once one of those was refused.
 */
import type { Chain, Outcome, Rows } from '../flow.ts';
import { refusal } from '../refusals.ts';
import type { Failed } from './round-trip.ts';
import type { Attempt } from './session.ts';

export interface SettleRooms {
  /** All rows or none. */
  store(members: readonly Rows[]): Promise<Attempt>;
  /** Each unit on its own, in order, in one transaction. */
  storeEach(units: readonly (readonly Rows[])[]): Promise<readonly Attempt[]>;
  /** What a failed attempt means: a row of it is at fault, or it was nobody's fault: `again` soon, or an outcome for all. */
  judge(
    failed: Failed,
  ): { readonly blame: 'row' | 'again' } | { readonly blame: 'group'; readonly outcome: Outcome };
  /** The outcome of a member that was refused alone. */
  explain(member: Rows, failed: Failed): Promise<Outcome>;
  /** Members whose values fit, where that can be had by storing NULL; null: nothing was changed. */
  relax(members: readonly Rows[]): Promise<readonly Rows[] | null>;
}

/** Units of one transaction: more savepoints would cost the engine more than another transaction. */
const unitsMax = 60;
/** How many parts a unit that failed is cut into. */
const partsMax = 16;
/** Passes over what is left; each cuts smaller, so that a group of the largest size needs three. */
const passesMax = 12;

interface Member {
  rows: Rows;
  outcome: Outcome | null;
}

type Unit = readonly Member[];

/** One outcome per member, in order. */
export async function settle(rooms: SettleRooms, given: readonly Rows[]): Promise<readonly Outcome[]> {
  const members: Member[] = given.map((rows) => ({ rows, outcome: null }));
  const settling = new Settling(rooms);
  await settling.run(members);
  return members.map(({ outcome }) => outcome ?? unreachable());
}

class Settling {
  readonly #rooms: SettleRooms;

  constructor(rooms: SettleRooms) {
    this.#rooms = rooms;
  }

  async run(members: readonly Member[]): Promise<void> {
    const ready = unbroken(members);
    if (ready.length === 0) return;
    let attempt = await this.#store(ready);
    if (this.#settleWhole(ready, attempt)) return;
    if (attempt.kind !== 'failed') return;
    const relaxed = await this.#rooms.relax(ready.map(({ rows }) => rows));
    if (relaxed !== null) {
      ready.forEach((member, i) => (member.rows = relaxed[i] ?? member.rows));
      attempt = await this.#store(ready);
      if (this.#settleWhole(ready, attempt)) return;
      if (attempt.kind !== 'failed') return;
    }
    const [only] = ready;
    if (ready.length === 1 && only !== undefined) return this.#refuse(only, attempt);
    await this.#settleParts(ready);
  }

  /** Whether the attempt settles all of the members. */
  #settleWhole(unit: Unit, attempt: Attempt): boolean {
    if (attempt.kind === 'committed') commit(unit);
    else if (attempt.kind === 'lost') refuseAll(unit, lost);
    else {
      const judged = this.#rooms.judge(attempt);
      if (judged.blame === 'row') return false;
      refuseAll(unit, judged.blame === 'group' ? judged.outcome : away);
    }
    return true;
  }

  async #store(unit: Unit): Promise<Attempt> {
    for (let tries = 1; ; tries++) {
      const attempt = await this.#rooms.store(unit.map(({ rows }) => rows));
      const conflict = attempt.kind === 'failed' && this.#rooms.judge(attempt).blame === 'again';
      if (!conflict || tries === conflictAttemptsMax) return attempt;
    }
  }

  async #settleParts(members: Unit): Promise<void> {
    let units = cut(members);
    for (let pass = 1; units.length > 0; pass++) {
      if (pass > passesMax) return units.forEach((unit) => refuseAll(unit, away));
      units = await this.#pass(units);
    }
  }

  /** Tries each unit once; gives what has to be tried again, in order. */
  async #pass(units: readonly Unit[]): Promise<Unit[]> {
    const again: Unit[] = [];
    /** Chains of which some rows are in `again`: what comes after those waits too. */
    const waiting = new Set<Chain>();
    const wait = (unit: Unit) => {
      for (const { rows } of unit) if (rows.chain !== null) waiting.add(rows.chain);
    };
    for (let at = 0; at < units.length;) {
      const block: Unit[] = [];
      const chains = new Set<Chain>();
      for (; at < units.length && block.length < unitsMax; at++) {
        const unit = unbroken(units[at] ?? []);
        if (unit.length === 0) continue;
        if (touches(unit, waiting)) {
          again.push(unit);
          wait(unit);
          continue;
        }
        // Units of one transaction are not told of each other's end: a chain is in one of them only.
        if (touches(unit, chains)) break;
        for (const { rows } of unit) if (rows.chain !== null) chains.add(rows.chain);
        block.push(unit);
      }
      if (block.length === 0) continue;
      const ends = await this.#rooms.storeEach(block.map((unit) => unit.map(({ rows }) => rows)));
      for (const [i, unit] of block.entries()) {
        const left = await this.#settleUnit(unit, ends[i] ?? { kind: 'lost', reason: '' }, again.length > 0);
        if (left.length > 0) wait(unit);
        again.push(...left);
      }
    }
    return again;
  }

  /** What of this unit has to be tried again; `behind`: rows before it have to be, too. */
  async #settleUnit(unit: Unit, end: Attempt, behind: boolean): Promise<Unit[]> {
    if (end.kind === 'failed') {
      const { blame } = this.#rooms.judge(end);
      if (blame === 'again') return [unit];
      if (blame === 'row' && unit.length > 1) return cut(unit);
      if (blame === 'row' && behind) return [unit];
      const [only] = unit;
      if (blame === 'row' && only !== undefined) {
        await this.#refuse(only, end);
        return [];
      }
    }
    this.#settleWhole(unit, end);
    return [];
  }

  async #refuse(member: Member, failed: Failed): Promise<void> {
    refuseAll([member], await this.#rooms.explain(member.rows, failed));
  }
}

/** Attempts of one group that the engine ended for the sake of another transaction (deadlock, serialization). */
const conflictAttemptsMax = 3;

const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };
const away: Outcome = { kind: 'aborted', refusal: refusal('engine_unavailable') };
const brokenChain: Outcome = { kind: 'aborted', refusal: refusal('chain_broken') };

/** Those that may still be stored; the others are refused because rows before them were. */
function unbroken(unit: Unit): Unit {
  const broken = unit.filter(({ rows }) => rows.chain?.broken === true);
  if (broken.length === 0) return unit;
  for (const member of broken) member.outcome = brokenChain;
  return unit.filter(({ rows }) => rows.chain?.broken !== true);
}

function commit(unit: Unit): void {
  for (const member of unit) member.outcome = { kind: 'committed', rows: member.rows.count };
}

function refuseAll(unit: Unit, outcome: Outcome): void {
  for (const member of unit) {
    member.outcome = outcome;
    if (member.rows.chain !== null) member.rows.chain.broken = true;
  }
}

function touches(unit: Unit, chains: ReadonlySet<Chain>): boolean {
  return unit.some(({ rows }) => rows.chain !== null && chains.has(rows.chain));
}

function cut(unit: Unit): Unit[] {
  const size = Math.ceil(unit.length / partsMax);
  return Array.from({ length: Math.ceil(unit.length / size) }, (_, i) =>
    unit.slice(i * size, (i + 1) * size),
  );
}

function unreachable(): never {
  throw new Error('settle() settles every member');
}
