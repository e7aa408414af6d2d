/** Counts groups: how many ended how, how large they were, how long their commit took. */
import type { Registry } from 'prom-client';
import type { Readers } from '../observe/context.ts';
import { PlainHistogram } from './plain-histogram.ts';
import { readCounter } from './read-metrics.ts';

/** Returns what counts a group. */
export function registerGroups(registry: Registry): Readers {
  const registers = [registry];
  const groups = { committed: 0, aborted: 0, unknown: 0 };
  readCounter(registry, 'headgate_groups_total', 'Groups (transactions), by outcome', ['result'], (add) => {
    for (const [result, count] of Object.entries(groups)) add({ result }, count);
  });
  const groupRows = new PlainHistogram({
    name: 'headgate_group_rows',
    help: 'Rows in one committed group',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    registers,
  });
  const commitSeconds = new PlainHistogram({
    name: 'headgate_commit_seconds',
    help: 'Time to commit one group, in seconds',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers,
  });
  return {
    'group.committed': ({ rows, seconds, elsewhere }) => {
      groups.committed += 1;
      groupRows.add(rows);
      if (elsewhere !== true) commitSeconds.add(seconds);
    },
    'group.aborted': () => void (groups.aborted += 1),
    'group.unknown': () => void (groups.unknown += 1),
  };
}
