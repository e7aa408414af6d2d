/**
 * Connects tables whose rows go into RisingWave to the rooms of all others: the lanes' commit, the result of decode, and the spool's hand-over.
 * Part of the composition root.
 */
import { createCommit, tellIgnored } from '../commit/commit.ts';
import type { CommitOptions } from '../commit/commit.ts';
import { passWith } from '../commit/hand-over.ts';
import type { HandOver } from '../commit/hand-over.ts';
import type { Closer } from '../kit/closer.ts';
import { IntoRisingWave } from '../risingwave/into.ts';
import type { CommitGroup, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import { Refused, refusal } from '../errors/refusals.ts';

export interface IntoRooms {
  readonly commit: CommitGroup;
  /** For groups of the spool; the others take the given path. */
  readonly handOver: (others: HandOver) => HandOver;
  /** Called once the lanes are empty: a hand-over may take long. */
  readonly stop: () => void;
}

export function openInto(options: CommitOptions, closer: Closer): IntoRooms {
  const { pools, observe, clock } = options;
  const elsewhere = new IntoRisingWave({ observe, clock });
  closer.add('RisingWave connections', () => elsewhere.close());
  const here = createCommit(options);
  const away: CommitGroup = async (group) => {
    const outcomes = await elsewhere.commit(group);
    tellIgnored(options, group, outcomes);
    return outcomes;
  };
  return {
    stop: () => elsewhere.stop(),
    commit: (group) => (group.target.into === undefined ? here(group) : away(group)),
    handOver: (others) => async (group, passage) => {
      const { target, members } = group;
      if (target.into === undefined) return others(group, passage);
      const stored = await elsewhere.store(group);
      if (stored.kind !== 'stored') return stored;
      try {
        await passWith(pools, target, passage, null, limits.catalogWaitMs);
      } catch {
        // The position is read again; if it is still the old one, the rows are stored again.
        return { kind: 'away', refusal: refusal('engine_unavailable') };
      }
      const committed = members.map(({ count }) => ({ kind: 'committed', rows: count }) as const);
      tellIgnored(options, group, committed);
      return { kind: 'committed' };
    },
  };
}

/** How long a request of this table waits at least, in ms. */
export function deadlineMsOf({ into }: Target): number {
  return into === undefined ? limits.ackDeadlineMs : limits.intoDeadlineMs;
}

/** The initial estimate for its groups: a checkpoint takes the same time whatever it holds. */
export function paceOf({ into }: Target): Pick<Limits, 'groupRowsMax' | 'groupTargetMs'> | null {
  if (into === undefined) return null;
  return { groupRowsMax: limits.risingwaveGroupRowsMax, groupTargetMs: limits.risingwaveGroupTargetMs };
}

/** Rows of one request are one INSERT, of a bounded size. Throws Refused. */
export function boundInto(rows: Rows): Rows {
  if (rows.target.into === undefined) return rows;
  if (rows.documents.bytes.length > limits.groupBytesMax) throw new Refused('body_too_large', tooLarge);
  return { ...rows, ackTimeoutMs: Math.max(rows.ackTimeoutMs, limits.intoDeadlineMs) };
}

const tooLarge = `the rows of one request are one INSERT there, of at most ${limits.groupBytesMax} bytes`;
