/**
 * Finds out which of a group's members the engine refuses, so that only their senders are refused. Pure: attempts
 * are made by the functions it is given.
 *
 * All members go together (`settle` in commit.ts); nearly always that is all. When a row is refused, members that cannot be stored in any order, or that hold the row
 * which a COPY names, are taken out, and the rest goes together again. If that fails, too, they go in order, each part of the group on its own,
 * and parts that fail are cut smaller until the members at fault are alone.
 * The parts are tried in order, and a member is refused for good only when no row before it may still be stored: it may
 * need one of them. Rows of a chain never pass earlier rows of it, and are not tried once one of those was refused.
 */
import type { Chain, Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import { blameOf, chainBroken, conflictAttemptsMax } from './interpret-reply.ts';
import { committedOutcome } from './engine-reply.ts';
import type { Committed, StoreAttempt, Failed } from './engine-reply.ts';

/** A group that is copied (DocumentGroup), one whose rows the engine decodes (DecodedGroup), and what tests put in their place. */
export interface TriedGroup {
  /** How often members are taken out, and the rest goes together again, before the group is cut. */
  readonly siftsMax: number;
  /** Parts in a row that fail through no fault of a row, before the rest is given up for now. */
  readonly fruitlessMax: number;
  /** The outcome of a member that is not even tried; null: it is tried. */
  refuse(member: Rows): Outcome | null;
  /** Stores all rows, or none. `whole`: fails if one of them is to be set apart, because its delivery's id is that of another delivery. */
  store(members: readonly Rows[], whole?: boolean): Promise<StoreAttempt>;
  /** Each unit on its own, in order; in one transaction if that can be. */
  storeEach(units: readonly (readonly Rows[])[]): Promise<readonly StoreAttempt[]>;
  /** Called before members are refused that were only suspected: null, or the outcome of them all instead. */
  stands(): Promise<Outcome | null>;
  /** The outcome of a member that was refused alone. */
  explain(member: Rows, failed: Failed): Promise<Outcome>;
  /** After a row was refused: each member as it is tried further, or the outcome of one that cannot be stored in any order. */
  sift(members: readonly Rows[], failed: Failed): Promise<readonly (Rows | Outcome)[]>;
}

/** Units of one transaction: more savepoints would cost the engine more than another transaction. */
const unitsMax = 60;
/** Number of parts into which a unit that failed is cut. */
const partsMax = 16;
/** Passes over what is left; each cuts smaller, so that a group of the largest size needs three. */
const passesMax = 12;

interface TriedMember {
  readonly place: number;
  rows: Rows;
  outcome: Outcome | null;
  /** How often it failed alone and was still tried again. */
  alone: number;
}

type TriedUnit = readonly TriedMember[];

/** One outcome per member, in order. `whole`: the first attempt to store them together; null: there was none, because one may not be tried. */
export async function settleEach(
  group: TriedGroup,
  given: readonly Rows[],
  whole: StoreAttempt | null,
): Promise<readonly Outcome[]> {
  const members: TriedMember[] = given.map((rows, place) => ({ place, rows, outcome: null, alone: 0 }));
  const settling = new Settling(group);
  await settling.run(members, whole);
  await settling.confirmSuspects();
  settling.chains.end();
  return members.map(({ outcome }) => outcome ?? unreachable());
}

/**
 * Stores all of these, or none; tries again what the engine ends through no fault of theirs. `whole`: see TriedGroup. `first`: the attempt that was
 * made before.
 */
export async function storeAgain(
  group: Pick<TriedGroup, 'store'>,
  members: readonly Rows[],
  whole = false,
  first: StoreAttempt | null = null,
): Promise<StoreAttempt> {
  let attempt = first ?? (await group.store(members, whole));
  for (let tries = 1; tries < conflictAttemptsMax; tries++) {
    if (attempt.kind !== 'failed' || blameOf(attempt).blame !== 'again') break;
    attempt = await group.store(members, whole);
  }
  return attempt;
}

class Settling {
  readonly chains = new Chains();
  readonly #group: TriedGroup;
  readonly #suspects: TriedMember[] = [];
  /** Parts since the last that was stored that failed through no fault of a row. */
  #fruitless = 0;

  constructor(group: TriedGroup) {
    this.#group = group;
  }

  async run(members: readonly TriedMember[], whole: StoreAttempt | null): Promise<void> {
    let left = whole === null ? this.#allowed(members) : members;
    if (left.length === 0) return;
    let failed = await this.#store(left, whole);
    for (let sifts = 0; ; sifts++) {
      if (this.#settleWhole(left, failed) || failed.kind !== 'failed') return;
      if (sifts === this.#group.siftsMax || this.#isNobodys(failed)) break;
      const given = left.map(({ rows }) => rows);
      left = await this.#sift(left, failed);
      if (left.length === 0) return;
      if (left.length === given.length && left.every(({ rows }, i) => rows === given[i])) break;
      failed = await this.#store(left);
    }
    const [only] = left;
    const { blame } = blameOf(failed);
    if (blame === 'row' && left.length === 1 && only !== undefined) return this.#refuse(only, failed);
    await this.#settleParts(left);
  }

  /** Those that may be tried; the others are refused. */
  #allowed(members: readonly TriedMember[]): TriedUnit {
    for (const member of members) {
      const refused = this.#group.refuse(member.rows);
      if (refused !== null) this.#refuseAll([member], refused);
    }
    return this.#unbroken(members.filter(({ outcome }) => outcome === null));
  }

  #isNobodys(failed: Failed): boolean {
    return /^(again|elsewhere)$/.test(blameOf(failed).blame);
  }

  /** The members that may still be stored. */
  async #sift(members: TriedUnit, failed: Failed): Promise<TriedUnit> {
    const sifted = await this.#group.sift(
      members.map(({ rows }) => rows),
      failed,
    );
    for (const [i, member] of members.entries()) {
      const verdict = sifted[i];
      if (verdict === undefined) continue;
      if ('kind' in verdict) this.#refuseAll([member], verdict);
      else member.rows = verdict;
    }
    return this.#unbroken(members.filter(({ outcome }) => outcome === null));
  }

  /** Whether the attempt settles all of the members. */
  #settleWhole(unit: TriedUnit, attempt: StoreAttempt): boolean {
    if (attempt.kind === 'committed') this.#commit(unit, attempt);
    else if (attempt.kind === 'lost') this.#refuseAll(unit, lost);
    else {
      const judged = blameOf(attempt);
      if (judged.blame !== 'group') return false;
      this.#refuseAll(unit, judged.outcome);
    }
    return true;
  }

  #commit(unit: TriedUnit, attempt: Committed): void {
    for (const member of unit) {
      const instead = attempt.apart?.get(member.rows);
      if (instead !== undefined) this.#refuseAll([member], instead);
      else member.outcome = committedOutcome(member.rows, attempt);
    }
  }

  #store(unit: TriedUnit, first: StoreAttempt | null = null): Promise<StoreAttempt> {
    const all = unit.map(({ rows }) => rows);
    return storeAgain(this.#group, all, false, first);
  }

  async #settleParts(members: TriedUnit): Promise<void> {
    let units = cut(members);
    for (let pass = 1; units.length > 0; pass++) {
      if (pass > passesMax || this.#isFruitless) return units.forEach((unit) => this.#refuseAll(unit, away));
      units = await this.#pass(units);
    }
  }

  /** Tries each unit once; returns what has to be tried again, in order. */
  async #pass(units: readonly TriedUnit[]): Promise<TriedUnit[]> {
    const again: TriedUnit[] = [];
    /** Chains that have rows in `again`: later rows of them wait, too. */
    const waiting = new Set<Chain>();
    const wait = (unit: TriedUnit) => {
      for (const { rows } of unit) if (rows.chain !== null) waiting.add(rows.chain);
    };
    for (let at = 0; at < units.length;) {
      if (this.#isFruitless) return [...again, ...units.slice(at)];
      const block: TriedUnit[] = [];
      const chains = new Set<Chain>();
      for (; at < units.length && block.length < unitsMax; at++) {
        const unit = this.#unbroken(units[at] ?? []);
        if (unit.length === 0) continue;
        if (touches(unit, waiting)) {
          again.push(unit);
          wait(unit);
          continue;
        }
        // Units of one transaction do not learn of each other's end: a chain is in one of them only.
        if (touches(unit, chains)) break;
        for (const { rows } of unit) if (rows.chain !== null) chains.add(rows.chain);
        block.push(unit);
      }
      if (block.length === 0) continue;
      const ends = await this.#group.storeEach(block.map((unit) => unit.map(({ rows }) => rows)));
      for (const [i, unit] of block.entries()) {
        const left = await this.#settleUnit(unit, ends[i] ?? { kind: 'lost', reason: '' }, again.length > 0);
        if (left.length > 0) wait(unit);
        again.push(...left);
      }
    }
    return again;
  }

  get #isFruitless(): boolean {
    return this.#fruitless >= this.#group.fruitlessMax;
  }

  /** Returns what has to be tried again of this unit; `behind`: rows before it have to be, too. */
  async #settleUnit(unit: TriedUnit, end: StoreAttempt, behind: boolean): Promise<TriedUnit[]> {
    if (end.kind === 'committed') this.#fruitless = 0;
    else if (end.kind === 'failed' && this.#isNobodys(end)) this.#fruitless += 1;
    if (end.kind !== 'failed') {
      this.#settleWhole(unit, end);
      return [];
    }
    const judged = blameOf(end);
    const [only] = unit;
    if (judged.blame === 'group') this.#refuseAll(unit, judged.outcome);
    else if (unit.length > 1) return cut(unit);
    else if (only !== undefined) {
      if (judged.blame === 'row' && behind) return [unit];
      only.alone += 1;
      if (judged.blame === 'again' && only.alone < conflictAttemptsMax) return [unit];
      if (judged.blame === 'suspect' && only.alone < suspectAttemptsMax) return [unit];
      if (judged.blame === 'row' || judged.blame === 'suspect') await this.#refuse(only, end);
      else this.#refuseAll(unit, away);
      if (judged.blame === 'suspect') this.#suspects.push(only);
    }
    return [];
  }

  /** The table may have been replaced since the first row was suspected. */
  async confirmSuspects(): Promise<void> {
    if (this.#suspects.length === 0) return;
    const instead = await this.#group.stands();
    if (instead !== null) for (const member of this.#suspects) member.outcome = instead;
  }

  /** Those that may still be stored; the others are refused because rows before them were. */
  #unbroken(unit: TriedUnit): TriedUnit {
    const broken = unit.filter(({ rows, place }) => this.chains.isBroken(rows, place));
    if (broken.length === 0) return unit;
    this.#refuseAll(broken, chainBroken);
    return unit.filter(({ outcome }) => outcome === null);
  }

  #refuseAll(unit: TriedUnit, outcome: Outcome): void {
    for (const member of unit) {
      member.outcome = outcome;
      this.chains.break(member.rows, member.place);
    }
  }

  async #refuse(member: TriedMember, failed: Failed): Promise<void> {
    this.#refuseAll([member], await this.#group.explain(member.rows, failed));
  }
}

/** Attempts of one member that fails alone with an error that may also be about the table. */
const suspectAttemptsMax = 2;

const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };
const away: Outcome = { kind: 'aborted', refusal: refusal('engine_unavailable') };

function touches(unit: TriedUnit, chains: ReadonlySet<Chain>): boolean {
  return unit.some(({ rows }) => rows.chain !== null && chains.has(rows.chain));
}

function cut(unit: TriedUnit): TriedUnit[] {
  const size = Math.ceil(unit.length / partsMax);
  return Array.from({ length: Math.ceil(unit.length / size) }, (_, i) =>
    unit.slice(i * size, (i + 1) * size),
  );
}

function unreachable(): never {
  throw new Error('settleEach() settles every member');
}

/** Which rows of a group may still be stored according to their chains: none after rows that were not. */
class Chains {
  /** For each chain, the first place in the group whose rows were not stored. */
  readonly #brokenAt = new Map<Chain, number>();

  /** The rows at this place of the group were not stored. */
  break({ chain }: Rows, place: number): void {
    if (chain !== null) this.#brokenAt.set(chain, Math.min(place, this.#brokenAt.get(chain) ?? place));
  }

  /** Whether rows at this place come after such rows. */
  isBroken({ chain }: Rows, place: number): boolean {
    return chain !== null && (chain.broken || place > (this.#brokenAt.get(chain) ?? place));
  }

  /** The group is settled: what is submitted from now on comes after all of it. */
  end(): void {
    for (const chain of this.#brokenAt.keys()) chain.broken = true;
  }
}
