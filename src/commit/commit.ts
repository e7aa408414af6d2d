/**
 * The commit stage: one group in, one transaction, one outcome per member out.
 *
 * Takes a Group; gives Outcomes in its order and never rejects. Refuses a member with `body_not_json` or
 * `row_refused` (the engine refused its row), all members with `engine_unavailable`, `deadline` (certainly not
 * stored), `table_changed` (read the catalog and try again) or, as `unknown`, with `commit_unknown`. Touches the
 * engine through its own small pool of connections per database, so that a slow SELECT elsewhere never delays a
 * group, and a slow table delays another only when `commitConnectionsMax` tables are slow at one time.
 */
import type { PoolClient } from 'pg';
import { cutOff } from '../engine/hang-up.ts';
import { faultOf } from '../engine/sqlstate.ts';
import type { CommitGroup, Group, Outcome, Rows, Target } from '../flow.ts';
import type { Limits } from '../limits.ts';
import type { Observe } from '../observations.ts';
import { refusal, refusals } from '../refusals.ts';
import type { Refusal } from '../refusals.ts';
import type { CommitPools } from './commit-pools.ts';
import { copyMessages, groupStatement, queryMessage } from './copy-message.ts';
import { GroupCopy } from './group-copy.ts';
import type { Attempt } from './group-copy.ts';
import { commitIsolating } from './isolate.ts';

export interface CommitOptions {
  readonly pools: CommitPools;
  readonly limits: Pick<Limits, 'ackDeadlineMs' | 'groupNamedRefusalsMax'>;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

/** Attempts of one group that the engine ended for reasons of its own (deadlock, serialization). */
const conflictAttemptsMax = 3;

/** Raised by headgate.confirm(): the table is not the one that the catalog knew. */
const tableChanged = 'HG001';

export function createCommit(options: CommitOptions): CommitGroup {
  const { pools, limits, observe, clock } = options;
  const statements = new WeakMap<Target, Buffer>();

  const statementOf = (target: Target): Buffer => {
    let message = statements.get(target);
    if (message === undefined) {
      message = queryMessage(groupStatement(target));
      statements.set(target, message);
    }
    return message;
  };

  return async (group) => {
    const { target } = group;
    const started = clock();
    const deadline = started + limits.ackDeadlineMs;
    let client: PoolClient;
    try {
      client = await pools.connect(target.database);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      observe({ kind: 'group.aborted', table: target, rows: group.rows, sqlstate: '08001', reason });
      return all(group, { kind: 'aborted', refusal: refusal('engine_unavailable') });
    }
    let usable = true;
    const attempt = async (members: readonly Rows[]): Promise<Attempt> => {
      for (let tries = 1; ; tries++) {
        if (!usable)
          return {
            kind: 'failed',
            sqlstate: '08003',
            message: 'the connection was lost',
            line: null,
            constraint: null,
          };
        const left = deadline - clock();
        if (left <= 0)
          return { kind: 'failed', sqlstate: '57014', message: 'deadline', line: null, constraint: null };
        const ended = await attemptOnce(
          client,
          target,
          [statementOf(target), ...copyMessages(members)],
          left,
        );
        if (ended.kind === 'lost') usable = false;
        // The server became a standby: this connection stays one to a standby.
        if (ended.kind === 'failed' && ended.sqlstate === '25006') {
          usable = false;
          pools.readOnly();
        }
        if (ended.kind === 'failed' && isConflict(ended.sqlstate) && tries < conflictAttemptsMax) continue;
        return ended;
      }
    };
    try {
      const outcomes = await commitIsolating(
        { attempt, judge, namedRefusalsMax: limits.groupNamedRefusalsMax },
        group.members,
      );
      tell(observe, group, outcomes, (clock() - started) / 1_000);
      return outcomes;
    } finally {
      // A connection in an unknown state is not lent again.
      client.release(!usable);
    }
  };
}

/** Sends one transaction and waits for its end, at most `timeoutMs`; a connection that stays silent is destroyed. */
function attemptOnce(
  client: PoolClient,
  target: Target,
  messages: Buffer[],
  timeoutMs: number,
): Promise<Attempt> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ kind: 'lost', reason: 'the engine did not answer in time' });
      cutOff(client);
    }, timeoutMs);
    client.query(
      new GroupCopy(target.table, messages, (attempt) => {
        clearTimeout(timer);
        resolve(attempt);
      }),
    );
  });
}

/** What a refusal by the engine means for the rows that it met. */
function judge(failed: Attempt & { kind: 'failed' }): { blame: 'row' | 'group'; outcome: Outcome } {
  const aborted = (blame: 'row' | 'group', it: Refusal) => ({
    blame,
    outcome: { kind: 'aborted', refusal: it } as const,
  });
  switch (failed.sqlstate === tableChanged ? 'catalog' : faultOf(failed.sqlstate)) {
    case 'row':
      return aborted('row', rowRefusal(failed));
    case 'catalog':
      return aborted('group', refusal('table_changed'));
    case 'transient':
      return aborted('group', refusal(failed.sqlstate === '57014' ? 'deadline' : 'engine_unavailable'));
    case 'bug':
      return aborted('group', refusal('internal'));
  }
}

/** The engine ended the transaction for the sake of another one; nothing is wrong with the rows. */
function isConflict(sqlstate: string): boolean {
  return sqlstate === '40001' || sqlstate === '40P01';
}

/** Names of constraints may be told to the sender; DETAIL, and texts written by triggers, may hold other rows' data. */
function rowRefusal(failed: Attempt & { kind: 'failed' }): Refusal {
  if (failed.constraint !== null)
    return refusal('row_refused', `the row violates the constraint ${failed.constraint}`);
  if (/^(22P0[25]|22021|22003|22P03|54)/.test(failed.sqlstate)) return refusal('body_not_json');
  return refusal('row_refused');
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
  const troubled = outcomes.filter((o) => o.kind !== 'committed' && !isRowRefusal(o.refusal));
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

function isRowRefusal({ code }: Refusal): boolean {
  return code === 'row_refused' || code === 'body_not_json';
}
