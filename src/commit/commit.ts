/**
 * The commit stage: a group in, a transaction, one outcome per member out. Small groups of several tables may share a
 * transaction (shared-transaction.ts): either all of it is committed, or nothing is, and then each group gets a transaction of its own.
 *
 * Takes a Group; returns Outcomes in its order and never rejects. Refuses a member with `body_not_json`,
 * `payload_undecodable` (a value does not fit its column), `row_refused` (a constraint or trigger refused its row) or
 * `chain_broken` (rows before it in its chain were not stored); all members with `engine_unavailable`, `deadline`
 * (certainly not stored), `table_changed` (read the catalog and try again) or, as `unknown`, with `commit_unknown`.
 * Touches the engine through its own small pool of connections per database, so that a slow SELECT elsewhere never
 * delays a group; its connections are handed out by turns of the tables' owners (owner-scheduler.ts), so that nobody's slow tables take all. Whose
 * session stores the rows is decided in commit-connection.ts.
 */
import type { PoolClient } from 'pg';
import type { Group, GroupCommit, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { IntoRisingWave } from '../risingwave/into.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { CommitPools } from './commit-pools.ts';
import { DocumentGroup } from './document-group.ts';
import { DecodedGroup, statementsOf } from './decoded-group.ts';
import { askOn, fateOf } from './transaction-status.ts';
import { aborted, isSendersAffair, storedAs, unusable, verdictOf } from './interpret-reply.ts';
import type { PreparedStatements } from './commit-connection.ts';
import { connectionOf, forRows } from './commit-connection.ts';
import { CommitSession } from './session.ts';
import type { TransactionEnd } from './session.ts';
import { GroupSharing, mayShare } from './shared-transaction.ts';
import type { GroupTransactions } from './shared-transaction.ts';
import { storeTogether } from './multi-table-statement.ts';
import { settleEach, storeAgain } from './row-at-fault.ts';
import type { TriedGroup } from './row-at-fault.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import { OwnerScheduler, ackTimeoutOf } from './owner-scheduler.ts';
import type { GroupResult } from './owner-scheduler.ts';

export interface CommitContext extends StageContext {
  readonly pools: CommitPools;
}

export class Commit implements GroupCommit, GroupTransactions {
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
    this.#sharing = new GroupSharing(this, context);
  }

  commit(group: Group): Promise<readonly Outcome[]> {
    const outcomes = this.#store(group);
    return this.#tracer === null ? outcomes : this.#tracer.commit(group, outcomes);
  }

  #store(group: Group): Promise<readonly Outcome[]> {
    if (group.target.into !== undefined && this.#elsewhere !== null)
      return this.#away(group, this.#elsewhere);
    this.#turns.saw(group.target);
    return this.#sharing.commit(group);
  }

  async #away(group: Group, elsewhere: GroupCommit): Promise<readonly Outcome[]> {
    const outcomes = await elsewhere.commit(group);
    tellIgnored(this.#context, group, outcomes);
    return outcomes;
  }

  async alone(group: Group): Promise<GroupResult> {
    const done = await this.#turns.run(group, () => commitAlone(this.#context, group));
    return done ?? tooLate(this.#context, group);
  }

  together(groups: readonly Group[]): ReturnType<GroupTransactions['together']> {
    return commitTogether(this.#context, groups);
  }

  mayShare(group: Group): boolean {
    const { pools, limits } = this.#context;
    return mayShare(group, limits) && !pools.sharesWriters(group.target.database);
  }
}

/** Whether the rows of a table are stored by one COPY. */
export function isCopied({ shape, dedupe }: Target): boolean {
  return shape.writeMode === 'copy' && dedupe === undefined;
}

async function commitAlone(options: CommitContext, group: Group): Promise<GroupResult> {
  const target = forRows(group);
  const { members } = group;
  const { limits, clock } = options;
  let started: number | null = null;
  const [outcomes = []] = await onSession(options, [group], target, async (session, lent) => {
    started = clock();
    const group = isCopied(target)
      ? new DocumentGroup(session, target, limits)
      : new DecodedGroup(session, statementsOf(target), options);
    const settled = await settle(group, members);
    if (group instanceof DecodedGroup) group.tell();
    lent.isDoubtful = settled.some((it) => it.kind === 'aborted' && it.refusal.code === 'table_changed');
    return [settled];
  });
  return { outcomes, ms: started === null ? null : clock() - started };
}

/** One outcome per member, in order. Nearly always all are stored together. */
export async function settle(group: TriedGroup, members: readonly Rows[]): Promise<readonly Outcome[]> {
  const areTried = members.every((rows) => rows.chain?.broken !== true && group.refuse(rows) === null);
  const attempt = areTried ? await storeAgain(group, members) : null;
  if (attempt?.kind !== 'committed' || attempt.apart !== undefined)
    return settleEach(group, members, attempt);
  return members.map((rows) => storedAs(rows, attempt));
}

/** Its turn did not come in time. */
function tooLate({ observe }: CommitContext, group: Group): GroupResult {
  const outcomes = all(group, aborted(refusal('deadline')));
  tell(observe, group, outcomes, 0);
  return { outcomes, ms: null };
}

/** null: nothing is stored, and each may go alone. */
function commitTogether(
  options: CommitContext,
  groups: readonly Group[],
): Promise<readonly (readonly Outcome[])[] | null> {
  return onSession(options, groups, null, async (session, lent) => {
    const kept = session.isNameless ? null : lent.statementsForMany();
    const attempt = await storeTogether(session, groups, kept);
    if (attempt.kind === 'failed') {
      // Code of a table that this was not meant for may have run.
      lent.isDoubtful = verdictOf(attempt) === 'table';
      return session.usable ? null : groups.map((group) => all(group, away));
    }
    const outcomeOf = ({ count }: Rows): Outcome =>
      attempt.kind === 'lost' ? lost : { kind: 'committed', rows: count };
    return groups.map(({ members }) => members.map(outcomeOf));
  });
}

/**
 * Does the work on a connection to these groups' database, and reports the outcomes. `only`: the table of the only group; null: they share a
 * transaction. The tables of the groups wait for the disk in the same way.
 */
async function onSession<T extends readonly (readonly Outcome[])[] | null>(
  options: CommitContext,
  groups: readonly Group[],
  only: Target | null,
  work: (session: CommitSession, lent: Lent) => Promise<T>,
): Promise<T | readonly (readonly Outcome[])[]> {
  const { pools, limits, observe, clock } = options;
  const [first] = groups;
  if (first === undefined) return [];
  const target = only ?? first.target;
  const started = clock();
  let client: PoolClient;
  try {
    client = await (only === null ? pools.connectForMany(target.database) : pools.connectFor(only));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    for (const { target: of, rows } of groups)
      observe({ kind: 'group.aborted', table: of, rows, sqlstate: '08001', reason });
    return groups.map((group) => all(group, aborted(noConnection(error))));
  }
  const ackTimeoutMs = Math.max(...groups.map(ackTimeoutOf));
  const deadline = started + ackTimeoutMs;
  const leftMs = () => deadline - clock();
  const told = (fate: TransactionEnd | null) => {
    for (const { target: of, rows } of groups)
      observe({ kind: 'group.settled', table: of, rows, fate: fate ?? 'unknown' });
    return fate;
  };
  const lent = new Lent(client, pools);
  const session = new CommitSession({
    client,
    clock,
    deadline,
    shared: pools.isShared(client),
    statementTimeoutMs: statementTimeoutMs(ackTimeoutMs, pools.isShared(client), limits),
    readOnly: () => pools.readOnly(target),
    fateOf: async (xid) => {
      // Gives up the lost connection, to make room for the one on which the question is asked.
      lent.giveBack(false);
      const lostOne = { ...target, xid, incarnation: connectionOf(client).incarnation };
      return told(await fateOf(lostOne, pools, { leftMs, random: Math.random }));
    },
    fateHere: async (xid) => {
      const fate = await askOn(client, { ...target, xid }, { leftMs }).catch(() => null);
      return told(fate === 'ask again' ? null : fate);
    },
  });
  try {
    const outcomes = await work(session, lent);
    const seconds = (clock() - started) / 1_000;
    groups.forEach((group, i) => {
      if (outcomes === null) return;
      tell(observe, group, outcomes[i] ?? [], seconds);
      tellIgnored(options, group, outcomes[i] ?? []);
    });
    return outcomes;
  } catch (error) {
    lent.isDoubtful = true;
    throw error;
  } finally {
    // A connection in an unknown state is not lent again.
    lent.giveBack(session.usable);
  }
}

const away: Outcome = aborted(refusal('engine_unavailable'));
const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };

/** Why there is no connection for rows. */
export function noConnection(error: unknown): Refusal {
  return error instanceof LoginRefused ? unusable(error.message) : refusal('engine_unavailable');
}

/** A connection of the pool, to be given back once. */
class Lent {
  /** Code of a table that it was not meant for may have run in its session, which is closed. */
  isDoubtful = false;
  readonly #client: PoolClient;
  readonly #pools: CommitPools;
  #isLent = true;

  constructor(client: PoolClient, pools: CommitPools) {
    this.#client = client;
    this.#pools = pools;
  }

  statementsForMany(): PreparedStatements | null {
    return this.#pools.statementsForMany(this.#client);
  }

  giveBack(usable: boolean): void {
    if (this.#isLent)
      if (usable && !this.isDoubtful) this.#pools.giveBack(this.#client);
      else this.#client.release(true);
    this.#isLent = false;
  }
}

/** null: the connection's own setting is enough, because the group waits no longer than a single request. */
export function statementTimeoutMs(
  ackTimeoutMs: number,
  shared: boolean,
  { ackDeadlineMs, commitStatementTimeoutMs }: Pick<Limits, 'ackDeadlineMs' | 'commitStatementTimeoutMs'>,
): number | null {
  if (ackTimeoutMs <= ackDeadlineMs) return shared ? commitStatementTimeoutMs : null;
  return ackTimeoutMs - (ackDeadlineMs - commitStatementTimeoutMs);
}

function all(group: Group, outcome: Outcome): readonly Outcome[] {
  return group.members.map(() => outcome);
}

function tell(observe: Observe, group: Group, outcomes: readonly Outcome[], seconds: number): void {
  const table = group.target;
  let committed = 0;
  let bytes = 0;
  outcomes.forEach((outcome, i) => {
    if (outcome.kind !== 'committed') return;
    committed += outcome.rows;
    bytes += group.members[i]?.bytes ?? 0;
  });
  if (committed > 0) observe({ kind: 'group.committed', table, rows: committed, bytes, seconds });
  const troubled = outcomes.filter((o) => o.kind !== 'committed' && !isSendersAffair(o.refusal));
  const worst = troubled.find((o) => o.kind === 'unknown') ?? troubled[0];
  const rows = group.rows - committed;
  if (worst?.kind === 'unknown')
    observe({ kind: 'group.unknown', table, rows, reason: worst.refusal.message });
  else if (worst?.kind === 'aborted')
    observe({
      kind: 'group.aborted',
      table,
      rows,
      sqlstate: refusals[worst.refusal.code].sqlstate,
      reason: worst.refusal.engineError ?? worst.refusal.message,
    });
}

export function tellIgnored(
  { observe }: Pick<StageContext, 'observe'>,
  { target, members }: Group,
  outcomes: readonly Outcome[],
): void {
  let documents = 0;
  let keys: readonly string[] = [];
  members.forEach(({ ignored }, i) => {
    if (ignored === null || outcomes[i]?.kind !== 'committed') return;
    documents += ignored.documents;
    ({ keys } = ignored);
  });
  if (documents === 0) return;
  observe({ kind: 'keys.ignored', table: target, documents, keys });
}
