/**
 * Finds out which of a group's members the engine refuses, so that only their senders hear of it. Pure: the
 * attempts are made by the function it is given.
 *
 * The engine names the row in most cases: that member is refused and the rest goes again. When it names none, or
 * has named `namedRefusalsMax` already, the group is cut in halves: at most 2n − 1 further attempts for n members.
 */
import type { Outcome, Rows } from '../flow.ts';
import { refusal } from '../refusals.ts';
import type { Attempt } from './group-copy.ts';

export interface IsolateRooms {
  attempt(members: readonly Rows[]): Promise<Attempt>;
  /** What a failed attempt means: this row is refused, or all of the members share one outcome. */
  judge(attempt: Attempt & { kind: 'failed' }): {
    readonly blame: 'row' | 'group';
    readonly outcome: Outcome;
  };
  readonly namedRefusalsMax: number;
}

/** One outcome per member, in order. */
export async function commitIsolating(
  rooms: IsolateRooms,
  members: readonly Rows[],
): Promise<readonly Outcome[]> {
  const outcomes = new Map<Rows, Outcome>();
  await isolate(rooms, members, rooms.namedRefusalsMax, outcomes);
  return members.map((member) => outcomes.get(member) ?? unreachable());
}

async function isolate(
  rooms: IsolateRooms,
  members: readonly Rows[],
  namedLeft: number,
  outcomes: Map<Rows, Outcome>,
): Promise<void> {
  if (members.length === 0) return;
  const all = (outcomeOf: (member: Rows) => Outcome) => {
    for (const member of members) outcomes.set(member, outcomeOf(member));
  };
  const attempt = await rooms.attempt(members);
  if (attempt.kind === 'committed') return all((m) => ({ kind: 'committed', rows: m.count }));
  if (attempt.kind === 'lost') return all(() => lost);
  const { blame, outcome } = rooms.judge(attempt);
  if (blame === 'group' || members.length === 1) return all(() => outcome);

  const named = attempt.line === null ? undefined : memberOfRow(members, attempt.line);
  if (named !== undefined && namedLeft > 0) {
    outcomes.set(named, outcome);
    const rest = members.filter((member) => member !== named);
    return isolate(rooms, rest, namedLeft - 1, outcomes);
  }
  const middle = members.length >> 1;
  await isolate(rooms, members.slice(0, middle), 0, outcomes);
  await isolate(rooms, members.slice(middle), 0, outcomes);
}

const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };

/** The member that holds the 1-based row `line` of the group. */
function memberOfRow(members: readonly Rows[], line: number): Rows | undefined {
  let last = 0;
  for (const member of members) {
    last += member.count;
    if (line >= 1 && line <= last) return member;
  }
  return undefined;
}

function unreachable(): never {
  throw new Error('isolate() settles every member');
}
