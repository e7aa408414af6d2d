/**
 * Parts of a segment that cannot be read: each is copied to `quarantine/`, once, and counts no longer. Takes a segment and a part of it;
 * returns what was lost. Rejects with the system's errors only.
 */
import { dirname, join } from 'node:path';
import type { SpoolFiles } from './files.ts';
import { headerBytes } from './format.ts';
import { count, reading, scanRecords } from './segment.ts';
import type { Segment } from './segment.ts';

/** A part that can no longer be read. */
export interface Lost {
  /** Name of the segment's file. */
  readonly segment: string;
  readonly bytes: number;
  /** `unfinished`: it was being written when the process ended, and no sender was told that it is kept. */
  readonly reason: 'damaged' | 'no header' | 'of another spool' | 'unfinished';
  /** Where it was put aside; null: nothing is left of it. */
  readonly kept: string | null;
}

export async function quarantine(
  files: SpoolFiles,
  segment: Segment,
  from: number,
  to: number,
): Promise<Lost> {
  const folder = join(dirname(segment.path), 'quarantine');
  const name = `${segment.number}-${from}.bin`;
  const kept = join(folder, name);
  const lost: Lost = { segment: name, bytes: to - from, reason: 'damaged', kept };
  await files.makeFolder(folder);
  segment.damaged.add(from);
  // Found again at every start as long as the segment exists; one copy is enough.
  if ((await files.list(folder)).includes(name)) return lost;
  const bytes = Buffer.alloc(to - from);
  await reading(files, segment.path, (file) => file.read(bytes, from));
  const copy = await files.create(kept);
  try {
    await copy.write([bytes], 0);
    await copy.sync();
  } finally {
    await copy.close();
  }
  return lost;
}

/** Counts the records of a segment again, without the parts that were put aside: nobody waits for those to arrive. */
export async function recount(files: SpoolFiles, segment: Segment): Promise<void> {
  const again: Pick<Segment, 'last' | 'counts' | 'requests'> = {
    last: new Map(),
    counts: new Map(),
    requests: 0,
  };
  await reading(files, segment.path, async (file) => {
    let [from, after] = [headerBytes, 0n];
    // More may be written meanwhile, and is counted where it is written.
    while (from < segment.end) {
      const stretch = { from, to: segment.end, full: true, after };
      from = stretch.to;
      for await (const found of scanRecords(file, stretch)) {
        if (found.is === 'damage') continue;
        after = found.head.sequence;
        if (found.head.kind === 'request' && !segment.damaged.has(found.from))
          count(again, found.head, found.to - found.from);
      }
    }
    segment.requests = again.requests;
    segment.last.clear();
    for (const [oid, sequence] of again.last) segment.last.set(oid, sequence);
    segment.counts.clear();
    for (const [oid, of] of again.counts) segment.counts.set(oid, of);
  });
}
