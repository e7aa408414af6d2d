/**
 * Finds out which of a COPY's members the engine refuses, so that only their senders hear of it. Pure: the attempts
 * are made by the function it is given.
 *
 * The engine names the row in most cases: that member is refused and the rest goes again. When it names none, or
 * has named `namedRefusalsMax` already, the group is cut in halves: at most 2n − 1 further attempts for n members.
 */
import type { Outcome, Rows } from '../flow.ts';
import { refusal } from '../refusals.ts';
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
  const outcomes = new Map<Rows, Outcome>();
  await isolate(rooms, members, rooms.namedRefusalsMax, outcomes);
  return members.map((member) => outcomes.get(member) ?? unreachable());
}

async function isolate(
  rooms: IsolateRooms,
  given: readonly Rows[],
  namedLeft: number,
  outcomes: Map<Rows, Outcome>,
): Promise<void> {
  const settle = (member: Rows, outcome: Outcome) => {
    outcomes.set(member, outcome);
    // What comes after rows that were not committed is not tried.
    if (outcome.kind !== 'committed' && member.chain !== null) member.chain.broken = true;
  };
  const members = given.filter((member) => member.chain?.broken !== true);
  for (const member of given) if (member.chain?.broken === true) settle(member, brokenChain);
  if (members.length === 0) return;
  const attempt = await rooms.attempt(members);
  if (attempt.kind === 'committed')
    return members.forEach((m) => settle(m, { kind: 'committed', rows: m.count }));
  if (attempt.kind === 'lost') return members.forEach((m) => settle(m, lost));
  const { blame, outcome } = await rooms.judge(attempt);
  const line = rooms.lineOf(attempt);
  const named = line === null || blame === 'group' ? undefined : memberOfRow(members, line);
  if (named !== undefined && (namedLeft > 0 || members.length === 1)) {
    settle(named.member, outcome.kind === 'aborted' ? { ...outcome, row: named.row } : outcome);
    const rest = members.filter((member) => member !== named.member);
    return isolate(rooms, rest, namedLeft - 1, outcomes);
  }
  if (blame === 'group' || members.length === 1) return members.forEach((m) => settle(m, outcome));
  const middle = members.length >> 1;
  await isolate(rooms, members.slice(0, middle), 0, outcomes);
  await isolate(rooms, members.slice(middle), 0, outcomes);
}

const lost: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };
const brokenChain: Outcome = { kind: 'aborted', refusal: refusal('chain_broken') };

/** The member that holds the 1-based row `line` of the group, and which of its rows that is, from 0. */
function memberOfRow(members: readonly Rows[], line: number): { member: Rows; row: number } | undefined {
  let before = 0;
  for (const member of members) {
    if (line > before && line <= before + member.count) return { member, row: line - before - 1 };
    before += member.count;
  }
  return undefined;
}

function unreachable(): never {
  throw new Error('isolate() settles every member');
}
