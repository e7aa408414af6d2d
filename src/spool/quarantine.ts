/**
 * Parts of a segment that cannot be read: each is copied to `quarantine/`, once, and counts no longer; of a file that is missing or was cut
 * an empty file is left there. They stay until a person removes them. Takes a segment and a part of it; returns what was lost. Rejects with
 * the system's errors only.
 *
 *   quarantine/<segment>-<position>[-table-<oid>][-requests-<count>].bin   bytes that cannot be read
 *   quarantine/<segment>.seg                                              a file without a readable header
 *   quarantine/<segment>.missing | <segment>-<bytes>.cut                  a file that is missing, or has only so many bytes left
 */
import { dirname, join } from 'node:path';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { quarantineIn } from './disk-health.ts';
import type { UnreadablePart } from './disk-health.ts';
import { reading, scanRecords } from './scan-records.ts';
import type { Damage } from './scan-records.ts';
import { count, markPath, recountAs, writtenOf } from './segment-files.ts';
import type { Segment, SegmentCounts, SegmentPosition } from './segment-files.ts';

export async function quarantine(
  files: SpoolFiles,
  segment: Segment,
  damage: Pick<Damage, 'from' | 'to' | 'oid' | 'requests'>,
  reason: UnreadablePart['reason'] = 'damaged',
): Promise<UnreadablePart> {
  const { from, to, oid, requests } = damage;
  const folder = quarantineIn(dirname(segment.path));
  const name =
    `${segment.number}-${from}` +
    (oid === null ? '' : `-table-${oid}`) +
    (requests === null ? '' : `-requests-${requests}`) +
    '.bin';
  const kept = join(folder, name);
  segment.damaged.add(from);
  const bytes = await reading(files, segment.path, (file) => bytesOf(file, from, to));
  const lost: UnreadablePart = { segment: name, bytes: bytes.length, reason, kept, requests };
  await files.makeFolder(folder);
  // Found again at every start as long as the segment exists; one copy is enough.
  if ((await files.list(folder)).includes(name)) return lost;
  const copy = await files.create(kept);
  try {
    await copy.write([bytes], 0);
    await copy.sync();
  } finally {
    await copy.close();
  }
  await files.syncFolder(folder);
  return lost;
}

/** Without the zeros at their end: nothing was written there. */
async function bytesOf(file: SpoolFile, from: number, to: number): Promise<Buffer> {
  const all = Buffer.alloc(to - from);
  const bytes = all.subarray(0, await file.read(all, from));
  return bytes.subarray(0, Math.max(8, bytes.findLastIndex((byte) => byte !== 0) + 1));
}

/** Moves the mark of a file that is missing, or of which only `size` bytes are left, so that it is reported once and stays visible. */
export async function quarantineMark(
  files: SpoolFiles,
  spoolFolder: string,
  mark: SegmentPosition,
  size: number | null,
  requests: number | null,
): Promise<UnreadablePart> {
  const folder = quarantineIn(spoolFolder);
  const kept = join(folder, size === null ? `${mark.number}.missing` : `${mark.number}-${size}.cut`);
  await files.makeFolder(folder);
  await files.rename(markPath(spoolFolder, mark), kept);
  await files.syncFolder(folder);
  await files.syncFolder(spoolFolder);
  const reason = size === null ? 'the file is missing' : 'the file was cut';
  return {
    segment: `${mark.number}.seg`,
    bytes: mark.fileBytes - (size ?? 0),
    reason,
    kept,
    requests,
  };
}

/** Moves a whole file there. */
export async function quarantineFile(
  files: SpoolFiles,
  path: string,
  lost: Pick<UnreadablePart, 'segment' | 'bytes' | 'reason'>,
): Promise<UnreadablePart> {
  const folder = quarantineIn(dirname(path));
  const kept = join(folder, lost.segment);
  await files.makeFolder(folder);
  await files.rename(path, kept);
  await files.syncFolder(folder);
  await files.syncFolder(dirname(path));
  return { ...lost, kept, requests: null };
}

/** Counts the records of a segment again, without the parts that were put aside: nobody waits for those to arrive. */
export async function recount(files: SpoolFiles, segment: Segment): Promise<void> {
  const again = { last: new Map<number, bigint>(), counts: new Map<number, SegmentCounts>() };
  await reading(files, segment.path, async (file) => {
    let stretch = writtenOf(segment);
    // More may be written meanwhile, and is counted where it is written.
    while (stretch.from < segment.end) {
      let { after } = stretch;
      for await (const found of scanRecords(file, stretch)) {
        if (found.is === 'damage') continue;
        after = found.head.sequence;
        if (!segment.damaged.has(found.from)) count(again, found.head, found.to - found.from);
      }
      stretch = { ...stretch, from: stretch.to, to: segment.end, after };
    }
    recountAs(segment, again);
  });
}
