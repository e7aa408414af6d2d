/**
 * The commit stage: a group in, a transaction, one outcome per member out. Small groups of several tables may share a
 * transaction (shared-transaction.ts): either all of it is committed, or nothing is, and then each group gets a transaction of its own. How
 * rows are stored is decided by their table: documents as they are (document-group.ts), or decoded (decoded-group.ts).
 *
 * Takes a Group; returns Outcomes in its order and never rejects. Refuses a member with `body_not_json`,
 * `payload_undecodable` (a value does not fit its column), `row_refused` (a constraint or trigger refused its row) or
 * `chain_broken` (rows before it in its chain were not stored); all members with `engine_unavailable`, `deadline`
 * (certainly not stored), `table_changed` (read the catalog and try again) or, as `unknown`, with `commit_unknown`, after a bug with `internal`.
 * Touches the engine through its own small pool of connections per database, so that a slow SELECT elsewhere never
 * delays a group; its connections are handed out by turns of the tables' owners (owner-scheduler.ts), so that nobody's slow tables take all.
 */
import type { Group, GroupCommit, Outcome, Rows } from '../types/rows.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { IntoRisingWave } from '../risingwave/into.ts';
import { refusal } from '../errors/refusals.ts';
import { DecodedGroup } from './decoded-group.ts';
import { DocumentGroup } from './document-group.ts';
import { GroupSession, ackTimeoutOf, lendSession } from './group-session.ts';
import type { CommitContext } from './session.ts';
import { aborted } from './interpret-reply.ts';
import { committedOutcome } from './engine-reply.ts';
import { commitTogether } from './multi-table-statement.ts';
import { tellIgnored, tellOutcomes } from './observed-groups.ts';
import { OwnerScheduler } from './owner-scheduler.ts';
import { settleEach } from './row-at-fault.ts';
import type { TriedGroup } from './row-at-fault.ts';
import { GroupSharing } from './shared-transaction.ts';
import type { GroupResult } from './sharing-tables.ts';
import { forRows, storesDocuments } from './write-mode.ts';
import { tableStatements } from './table-statements.ts';

export class Commit implements GroupCommit {
  readonly #context: CommitContext;
  /** Where rows of tables with `into` go; null: there are none. */
  readonly #elsewhere: Pick<IntoRisingWave, 'commit'> | null;
  /** null: nothing is traced. */
  readonly #tracer: Pick<Tracer, 'commit'> | null;
  readonly #turns: OwnerScheduler;
  readonly #sharing: GroupSharing;

  constructor(
    context: CommitContext,
    elsewhere: Pick<IntoRisingWave, 'commit'> | null = null,
    tracer: Pick<Tracer, 'commit'> | null = null,
  ) {
    this.#context = context;
    this.#elsewhere = elsewhere;
    this.#tracer = tracer;
    this.#turns = new OwnerScheduler(context.pools, context);
    this.#sharing = new GroupSharing(
      {
        alone: (group) => this.#alone(group),
        together: (groups) => commitTogether(context, groups),
        hasPooler: (database) => context.pools.hasPooler(database),
      },
      context,
    );
  }

  commit(group: Group): Promise<readonly Outcome[]> {
    const isElsewhere = group.target.into !== undefined && this.#elsewhere !== null;
    const outcomes = isElsewhere ? this.#away(group, this.#elsewhere) : this.#store(group);
    return this.#tracer === null ? outcomes : this.#tracer.commit(group, outcomes);
  }

  async #away(group: Group, elsewhere: Pick<IntoRisingWave, 'commit'>): Promise<readonly Outcome[]> {
    try {
      const outcomes = await elsewhere.commit(group);
      tellIgnored(this.#context.observe, group, outcomes);
      return outcomes;
    } catch (error) {
      return this.#failed(group, error);
    }
  }

  /** As a rule `#alone`, at once, counted as one of the shared transactions; with small groups of other tables if they come at the same moment. */
  async #store(group: Group): Promise<readonly Outcome[]> {
    try {
      this.#turns.note(group.target);
      return await this.#sharing.store(group);
    } catch (error) {
      return this.#failed(group, error);
    }
  }

  /** After a bug nobody knows what is stored. */
  #failed({ target: table, rows, members }: Group, error: unknown): readonly Outcome[] {
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#context.observe({ kind: 'group.unknown', table, rows, reason });
    return members.map(() => ({ kind: 'unknown', refusal: refusal('internal') }));
  }

  /** In a transaction of its own, when its owner's turn has come. */
  async #alone(group: Group): Promise<GroupResult> {
    const { pools, limits, observe, clock } = this.#context;
    const target = forRows(group);
    if (!(await this.#turns.turn(target, ackTimeoutOf(group)))) {
      const outcomes = group.members.map(() => tooLate);
      tellOutcomes(observe, group, outcomes, 0);
      return { outcomes, ms: null };
    }
    let ms: number | null = null;
    try {
      // A connection, lent; what is sent on it is in CommitSession (session.ts).
      const lent = await lendSession(this.#context, [group], target, pools.connectFor(target));
      if (!(lent instanceof GroupSession)) return { outcomes: group.members.map(() => lent), ms };
      try {
        const started = clock();
        const tried = storesDocuments(target)
          ? new DocumentGroup(lent, target, limits)
          : new DecodedGroup(lent, tableStatements(target), this.#context);
        const outcomes = await settle(tried, group.members);
        if (tried instanceof DecodedGroup) tried.tell();
        lent.isDoubtful = outcomes.some(isOfChangedTable);
        tellOutcomes(observe, group, outcomes, lent.seconds);
        ms = clock() - started;
        return { outcomes, ms };
      } finally {
        lent.giveBack();
      }
    } finally {
      this.#turns.end(target, ms);
    }
  }
}

const tooLate = aborted(refusal('deadline'));

function isOfChangedTable(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && outcome.refusal.code === 'table_changed';
}

/** One outcome per member, in order. Nearly always all are stored together; if not, row-at-fault.ts finds out whose rows are refused. */
export async function settle(group: TriedGroup, members: readonly Rows[]): Promise<readonly Outcome[]> {
  const areTried = members.every((rows) => rows.chain?.broken !== true && group.refuse(rows) === null);
  const attempt = areTried ? await group.store(members) : null;
  if (attempt?.kind !== 'committed' || attempt.apart !== undefined)
    return settleEach(group, members, attempt);
  return members.map((rows) => committedOutcome(rows, attempt));
}
