/**
 * The commit stage: one group in, one transaction, one outcome per member out.
 *
 * Takes a Group; gives Outcomes in its order and never rejects. Refuses a member with `body_not_json`,
 * `payload_undecodable` (a value does not fit its column) or `row_refused` (a constraint or trigger refused its row),
 * with `chain_broken` because rows before it were not stored, all members with `engine_unavailable`, `deadline`
 * (certainly not stored), `table_changed` (read the catalog and try again) or, as `unknown`, with `commit_unknown`.
 * Touches the engine through its own small pool of connections per database, so that a slow SELECT elsewhere never
 * delays a group, and a slow table delays another only when `commitConnectionsMax` tables are slow at one time.
 */
import type { PoolClient } from 'pg';
import type { CommitGroup, Group, Ignored, Outcome, Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import { refusal, refusals } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';
import { incarnationOf } from './commit-pools.ts';
import type { CommitPools } from './commit-pools.ts';
import { commitCopy } from './copy-group.ts';
import { commitDecoded } from './decoded-group.ts';
import { askOn, fateOf } from './fate.ts';
import { Session } from './session.ts';
import type { Fate } from './session.ts';

export interface CommitOptions {
  readonly pools: CommitPools;
  readonly limits: Pick<
    Limits,
    | 'ackDeadlineMs'
    | 'commitStatementTimeoutMs'
    | 'groupNamedRefusalsMax'
    | 'groupFruitlessMax'
    | 'groupProbesMax'
    | 'groupNulledProbesMax'
    | 'groupTriedRowsMax'
  >;
  readonly observe: Observe;
  /** Told of documents that were stored without some of their members. */
  readonly ignored?: (target: Target, ignored: Ignored) => void;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export function createCommit(options: CommitOptions): CommitGroup {
  const { pools, limits, observe, clock } = options;
  return async (group) => {
    const { target, members } = group;
    const started = clock();
    let client: PoolClient;
    try {
      client = await pools.connect(target.database, target.oid);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      observe({ kind: 'group.aborted', table: target, rows: group.rows, sqlstate: '08001', reason });
      return all(group, { kind: 'aborted', refusal: refusal('engine_unavailable') });
    }
    const patienceMs = members.reduce((most, rows) => Math.max(most, rows.patienceMs), 0);
    const deadline = started + patienceMs;
    const leftMs = () => deadline - clock();
    const told = (fate: Fate | null) => {
      observe({ kind: 'group.settled', table: target, rows: group.rows, fate: fate ?? 'unknown' });
      return fate;
    };
    const lent = new Lent(client, pools, target);
    const session = new Session({
      client,
      clock,
      deadline,
      shared: pools.isShared(target.database),
      statementTimeoutMs: statementTimeoutMs(patienceMs, pools.isShared(target.database), limits),
      readOnly: () => pools.readOnly(),
      fateOf: async (xid) => {
        // The lost connection makes room for the one that is asked.
        lent.giveBack(false);
        const lost = { ...target, xid, incarnation: incarnationOf(client) };
        return told(await fateOf(lost, pools, { leftMs, random: Math.random }));
      },
      fateHere: async (xid) => {
        const fate = await askOn(client, { ...target, xid }, { leftMs }).catch(() => null);
        return told(fate === 'ask again' ? null : fate);
      },
    });
    let stained = true;
    try {
      const outcomes =
        target.shape.way === 'copy' && target.code.as !== 'owner' && target.dedupe === undefined
          ? await commitCopy(session, target, members, limits)
          : await commitDecoded(session, target, members, options);
      tell(observe, group, outcomes, (clock() - started) / 1_000);
      tellIgnored(options, group, outcomes);
      stained = outcomes.some((it) => it.kind === 'aborted' && it.refusal.code === 'table_changed');
      return outcomes;
    } finally {
      // A connection in an unknown state is not lent again.
      lent.giveBack(session.usable, stained);
    }
  };
}

/** A connection of the pool, to be given back once. */
class Lent {
  readonly #client: PoolClient;
  readonly #pools: CommitPools;
  readonly #target: Target;
  #isLent = true;

  constructor(client: PoolClient, pools: CommitPools, target: Target) {
    this.#client = client;
    this.#pools = pools;
    this.#target = target;
  }

  /** `stained`: something of a table may have run in its session that the catalog did not know of. */
  giveBack(usable: boolean, stained = false): void {
    if (this.#isLent) {
      const { database, code, oid } = this.#target;
      const whose = stained ? null : oid;
      if (usable && (stained || !code.inert)) this.#pools.giveBackStained(database, this.#client, whose);
      else this.#client.release(!usable);
    }
    this.#isLent = false;
  }
}

/** What connections have of their own fits a group that is waited for as long as a single request: null. */
export function statementTimeoutMs(
  patienceMs: number,
  shared: boolean,
  { ackDeadlineMs, commitStatementTimeoutMs }: CommitOptions['limits'],
): number | null {
  if (patienceMs <= ackDeadlineMs) return shared ? commitStatementTimeoutMs : null;
  return patienceMs - (ackDeadlineMs - commitStatementTimeoutMs);
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
  // A row that the engine refuses is its sender's affair, told with the answer; the rest is the owner's.
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

function tellIgnored(
  { observe, ignored: told }: CommitOptions,
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

function isSendersAffair({ code }: Refusal): boolean {
  return (
    code === 'row_refused' ||
    code === 'body_not_json' ||
    code === 'payload_undecodable' ||
    code === 'chain_broken'
  );
}
