/**
 * The commit stage: a group in, a transaction, one outcome per member out. Small groups of several tables may share a
 * transaction (sharing.ts): either all of it is committed, or nothing is, and then each group gets a transaction of its own.
 *
 * Takes a Group; returns Outcomes in its order and never rejects. Refuses a member with `body_not_json`,
 * `payload_undecodable` (a value does not fit its column), `row_refused` (a constraint or trigger refused its row) or
 * `chain_broken` (rows before it in its chain were not stored); all members with `engine_unavailable`, `deadline`
 * (certainly not stored), `table_changed` (read the catalog and try again) or, as `unknown`, with `commit_unknown`.
 * Touches the engine through its own small pool of connections per database, so that a slow SELECT elsewhere never
 * delays a group; its connections are handed out by turns of the tables' owners (turns.ts), so that nobody's slow tables take all.
 */
import type { PoolClient } from 'pg';
import type { CommitGroup, Group, Ignored, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import type { CommitPools } from './commit-pools.ts';
import { commitCopy } from './copy-group.ts';
import { commitDecoded } from './decoded-group.ts';
import { askOn, fateOf } from './fate.ts';
import { aborted, isSendersAffair, verdictOf } from './judge.ts';
import type { PreparedStatements } from './prepared.ts';
import { incarnationOf } from './session-facts.ts';
import { Session } from './session.ts';
import { mayRunCode } from './session-care.ts';
import type { Fate } from './session.ts';
import { Sharing } from './sharing.ts';
import type { SharingOptions } from './sharing.ts';
import { ackTimeoutOf, mayShare, sharesOf, storeTogether } from './together.ts';
import { Turns } from './turns.ts';
import type { Done, TurnsOptions } from './turns.ts';

export interface CommitOptions {
  readonly pools: CommitPools;
  readonly limits: SharingOptions['limits'] &
    TurnsOptions['limits'] &
    Pick<
      Limits,
      | 'groupNamedRefusalsMax'
      | 'groupFruitlessMax'
      | 'groupProbesMax'
      | 'groupNulledProbesMax'
      | 'groupTriedRowsMax'
    >;
  readonly observe: Observe;
  /** Called for documents that were stored without some of their members. */
  readonly ignored?: (target: Target, ignored: Ignored) => void;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export function createCommit(options: CommitOptions): CommitGroup {
  const { pools } = options;
  const turns = new Turns({ ...options, connections: (database) => pools.sizeOf(database) });
  const sharing = new Sharing({
    ...options,
    alone: async (group) =>
      (await turns.run(group, () => commitAlone(options, group))) ?? tooLate(options, group),
    together: (groups, boundMs) => commitTogether(options, groups, boundMs),
    mayShare: (group) => mayShare(group, options.limits) && !pools.isShared(group.target.database),
  });
  return (group) => {
    turns.saw(group.target);
    return sharing.commit(group);
  };
}

/** Whether the rows of a table are stored by one COPY. */
export function isCopied({ shape, code, dedupe }: Target): boolean {
  return shape.writeMode === 'copy' && code.as !== 'owner' && dedupe === undefined;
}

async function commitAlone(options: CommitOptions, group: Group): Promise<Done> {
  const { target, members } = group;
  const { limits, clock } = options;
  let started: number | null = null;
  const [outcomes = []] = await onSession(options, [group], target.oid, async (session, lent) => {
    started = clock();
    const settled = isCopied(target)
      ? await commitCopy(session, target, members, limits)
      : await commitDecoded(session, target, members, options);
    lent.isStained = settled.some((it) => it.kind === 'aborted' && it.refusal.code === 'table_changed');
    return [settled];
  });
  return { outcomes, ms: started === null ? null : clock() - started };
}

/** Its turn did not come in time. */
function tooLate({ observe }: CommitOptions, group: Group): Done {
  const outcomes = all(group, aborted(refusal('deadline')));
  tell(observe, group, outcomes, 0);
  return { outcomes, ms: null };
}

/** null: nothing is stored, of all groups or of this one, and each may go alone. */
function commitTogether(
  options: CommitOptions,
  groups: readonly Group[],
  boundMs: number,
): Promise<readonly (readonly Outcome[] | null)[] | null> {
  return onSession(options, groups, null, async (session, lent) => {
    const kept = session.shared ? null : lent.statementsForMany();
    const shares = sharesOf(groups, kept);
    if (session.isNameless || shares.none.size === groups.length) return groups.map(() => null);
    const attempt = await storeTogether(session, shares, kept, boundMs);
    if (attempt.kind === 'failed') {
      // Code of a table that this was not meant for may have run.
      lent.isStained = verdictOf(attempt) === 'table';
      return session.usable ? null : groups.map((group) => all(group, away));
    }
    const outcomeOf = ({ count }: Rows): Outcome =>
      attempt.kind === 'lost' ? lost : { kind: 'committed', rows: count };
    return groups.map((group) => (shares.none.has(group) ? null : group.members.map(outcomeOf)));
  });
}

/**
 * Does the work on a connection to these groups' database, and reports the outcomes. `table`: see CommitPools.connect. The
 * tables of the groups wait for the disk in the same way.
 */
async function onSession<T extends readonly (readonly Outcome[] | null)[] | null>(
  options: CommitOptions,
  groups: readonly Group[],
  table: number | null,
  work: (session: Session, lent: Lent) => Promise<T>,
): Promise<T | readonly (readonly Outcome[])[]> {
  const { pools, limits, observe, clock } = options;
  const [first] = groups;
  if (first === undefined) return [];
  const { target } = first;
  const started = clock();
  let client: PoolClient;
  try {
    client = await (table === null
      ? pools.connectForMany(target.database)
      : pools.connect(target.database, table));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    for (const { target: of, rows } of groups)
      observe({ kind: 'group.aborted', table: of, rows, sqlstate: '08001', reason });
    return groups.map((group) => all(group, away));
  }
  const ackTimeoutMs = Math.max(...groups.map(ackTimeoutOf));
  const deadline = started + ackTimeoutMs;
  const leftMs = () => deadline - clock();
  const told = (fate: Fate | null) => {
    for (const { target: of, rows } of groups)
      observe({ kind: 'group.settled', table: of, rows, fate: fate ?? 'unknown' });
    return fate;
  };
  const lent = new Lent(client, pools, target, table);
  const session = new Session({
    client,
    clock,
    deadline,
    shared: pools.isShared(target.database),
    statementTimeoutMs: statementTimeoutMs(ackTimeoutMs, pools.isShared(target.database), limits),
    readOnly: () => pools.readOnly(),
    fateOf: async (xid) => {
      // Gives up the lost connection, to make room for the one on which the question is asked.
      lent.giveBack(false);
      const lostOne = { ...target, xid, incarnation: incarnationOf(client) };
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
    lent.isStained = true;
    throw error;
  } finally {
    // A connection in an unknown state is not lent again.
    lent.giveBack(session.usable);
  }
}

const away: Outcome = aborted(refusal('engine_unavailable'));
const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };

/** A connection of the pool, to be given back once. */
class Lent {
  /** Code of a table that the catalog did not know of may have run in its session. */
  isStained = false;
  readonly #client: PoolClient;
  readonly #pools: CommitPools;
  readonly #target: Target;
  readonly #table: number | null;
  #isLent = true;

  constructor(client: PoolClient, pools: CommitPools, target: Target, table: number | null) {
    this.#client = client;
    this.#pools = pools;
    this.#target = target;
    this.#table = table;
  }

  statementsForMany(): PreparedStatements | null {
    return this.#pools.statementsForMany(this.#target.database, this.#client);
  }

  giveBack(usable: boolean): void {
    if (this.#isLent) {
      const { database, code } = this.#target;
      const whose = this.isStained ? null : this.#table;
      if (usable && (this.isStained || mayRunCode(code)))
        this.#pools.giveBackStained(database, this.#client, whose);
      else if (usable) this.#pools.giveBack(this.#client);
      else this.#client.release(true);
    }
    this.#isLent = false;
  }
}

/** null: the connection's own setting is enough, because the group waits no longer than a single request. */
export function statementTimeoutMs(
  ackTimeoutMs: number,
  shared: boolean,
  { ackDeadlineMs, commitStatementTimeoutMs }: CommitOptions['limits'],
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
      reason: worst.refusal.message,
    });
}

export function tellIgnored(
  { observe, ignored: told }: Pick<CommitOptions, 'observe' | 'ignored'>,
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
  told?.(target, { documents, keys });
}
