/**
 * The way of rows of any other table: documents that the engine decodes, inserted or upserted by prepared statements.
 * What does not go together is settled member by member (settle.ts); a sender reads which value of its own does not
 * fit, as far as the group's questions and time allow.
 */
import type { Outcome, Rows, Target } from '../flow.ts';
import type { Limits } from '../limits.ts';
import type { Observe } from '../observations.ts';
import { refusal } from '../refusals.ts';
import { aborted, isConflict, judgeGroup } from './judge.ts';
import { withNulls } from './nulls.ts';
import { Probes } from './probes.ts';
import { misfitRefusal, rowRefusal } from './reasons.ts';
import type { Failed } from './round-trip.ts';
import type { Session } from './session.ts';
import { settle } from './settle.ts';
import { TableStatements } from './table-statements.ts';

const tables = new WeakMap<Target, TableStatements>();

export interface DecodedOptions {
  readonly limits: Pick<Limits, 'groupProbesMax' | 'groupNulledProbesMax'>;
  readonly observe: Observe;
}

export async function commitDecoded(
  session: Session,
  target: Target,
  members: readonly Rows[],
  options: DecodedOptions,
): Promise<readonly Outcome[]> {
  let table = tables.get(target);
  if (table === undefined) {
    table = new TableStatements(target);
    tables.set(target, table);
  }
  const group = new DecodedGroup(session, table, options);
  const outcomes = await settle(group, members);
  if (group.nulled > 0) options.observe({ kind: 'values.nulled', table: target, values: group.nulled });
  return outcomes;
}

class DecodedGroup {
  /** Values that were stored as NULL. */
  nulled = 0;
  readonly #session: Session;
  readonly #table: TableStatements;
  readonly #options: DecodedOptions;
  readonly #probes: Probes;

  constructor(session: Session, table: TableStatements, options: DecodedOptions) {
    this.#session = session;
    this.#table = table;
    this.#options = options;
    this.#probes = new Probes(this.#send, table, options.limits.groupProbesMax);
  }

  readonly #send: Session['send'] = (messages, expected) => this.#session.send(messages, expected);

  store(members: readonly Rows[]) {
    return this.#session.store(this.#table, members);
  }

  storeEach(units: readonly (readonly Rows[])[]) {
    return this.#session.storeEach(this.#table, units);
  }

  judge(failed: Failed) {
    if (isConflict(failed)) return { blame: 'again' } as const;
    const outcome = judgeGroup(failed);
    return outcome === null ? ({ blame: 'row' } as const) : ({ blame: 'group', outcome } as const);
  }

  async explain(member: Rows, failed: Failed): Promise<Outcome> {
    const { shape } = this.#table.target;
    if (
      failed.sqlstate === '23505' &&
      shape.key.length === 0 &&
      (await this.#session.hasKey(this.#table.target))
    )
      return aborted(refusal('table_changed'));
    const misfit = mayBeMisfit(failed) ? await this.#probes.first(member) : null;
    if (misfit !== null) return { ...aborted(misfitRefusal(misfit)), row: misfit.row };
    const row = await this.#rowAtFault(member);
    // Nothing may be asked any more: what is certain is that a value of the row could not be read.
    const it =
      this.#probes.exhausted && failed.sqlstate.startsWith('22')
        ? refusal('payload_undecodable')
        : rowRefusal(failed);
    return row === null ? aborted(it) : { ...aborted(it), row };
  }

  async relax(members: readonly Rows[]): Promise<readonly Rows[] | null> {
    const { target } = this.#table;
    if (target.shape.misfits !== 'null') return null;
    const probes = new Probes(this.#send, this.#table, this.#options.limits.groupNulledProbesMax);
    const relaxed = [...members];
    for (const i of await probes.failing(members)) {
      const member = members[i];
      if (member === undefined) continue;
      const misfits = await probes.all(member);
      if (misfits.length > 0) relaxed[i] = withNulls(member, misfits);
      this.nulled += misfits.length;
    }
    return this.nulled > 0 ? relaxed : null;
  }

  /** The first row of a refused member at which storing it fails, where time allows to find out. */
  async #rowAtFault(member: Rows): Promise<number | null> {
    if (member.count === 1) return 0;
    // Without row n it can be stored, with it it cannot: rows before may be what it collides with.
    let good = 0;
    let bad = member.count;
    let before = this.#session.leftMs;
    while (bad - good > 1) {
      const middle = (good + bad) >> 1;
      const some = { ...member, count: middle, keeps: member.keeps };
      const failed = await this.#session.wouldFail(this.#table, [some]);
      if (failed !== null && this.judge(failed).blame !== 'row') return null;
      if (failed === null) good = middle;
      else bad = middle;
      const left = this.#session.leftMs;
      if (left < 2 * (before - left)) return null;
      before = left;
    }
    return bad - 1;
  }
}

/** Whether it can come of decoding: a value, or a domain's constraint, rather than one of the table's. */
function mayBeMisfit({ sqlstate }: Failed): boolean {
  return !['23503', '23505', '23P01'].includes(sqlstate);
}
