/**
 * Inspects a folder of spools without changing anything in it, for the command line. Takes a folder that no Headgate needs to
 * be running on; returns what its files hold, and their requests if the master key is known. Rejects with the system's errors only.
 */
import { join } from 'node:path';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { SpoolFiles } from './files.ts';
import { headerBytes, keyOf, openRecord, recordsEnd } from './format.ts';
import type { SegmentHeader } from './format.ts';
import { apart, decodeRequest, decodeTable } from './kept-request.ts';
import type { KeptHead, SpooledTable } from './kept-request.ts';
import { quarantinedIn } from './disk-health.ts';
import { readHeader, reading, scanRecords } from './scan-records.ts';
import { segmentPath, segmentsIn } from './segment-files.ts';
import type { SegmentPosition } from './segment-files.ts';

export interface SegmentReport {
  readonly path: string;
  /** Of the file, used or not; null: it is missing. */
  readonly bytes: number | null;
  /** How many it had when it was made; null: not known. */
  readonly made: number | null;
  /** Nothing was ever written to it. */
  readonly isUnused: boolean;
  /** null: it has no readable header. */
  readonly header: SegmentHeader | null;
  readonly requests: number;
  /** Bytes that cannot be read. */
  readonly damaged: number;
  /** Its master key is known. */
  readonly opens: boolean;
}

export interface FoundRequest {
  /** The id of its spool. */
  readonly spool: string;
  readonly sequence: bigint;
  readonly oid: number;
  /** null: nothing readable tells. */
  readonly table: SpooledTable | null;
  readonly head: KeptHead;
  readonly body: Buffer;
}

export interface Inspected {
  readonly segments: readonly SegmentReport[];
  /** Paths of what was put aside earlier, because it could not be read. */
  readonly quarantined: readonly string[];
}

export async function inspectSpools(
  files: SpoolFiles,
  root: string,
  ring: KeyRing,
  found: (request: FoundRequest) => void = () => undefined,
): Promise<Inspected> {
  const segments: SegmentReport[] = [];
  const quarantined: string[] = [];
  for (const database of await foldersIn(files, root))
    for (const spool of (await foldersIn(files, database)).filter((path) =>
      /[/\\][0-9a-f]{32}$/.test(path),
    )) {
      quarantined.push(...(await quarantinedIn(files, spool)).map(({ path }) => path));
      for (const { number, mark, exists } of await segmentsIn(files, spool)) {
        const path = segmentPath(spool, number);
        segments.push(exists ? await inspect(files, path, mark, ring, found) : missing(path, mark));
      }
    }
  return { segments, quarantined };
}

async function foldersIn(files: SpoolFiles, folder: string): Promise<readonly string[]> {
  return (await files.list(folder)).toSorted().map((name) => join(folder, name));
}

function missing(path: string, mark: SegmentPosition | null): SegmentReport {
  const made = mark?.fileBytes ?? null;
  return { path, bytes: null, made, isUnused: false, header: null, requests: 0, damaged: 0, opens: false };
}

/** What was refused at the end of a segment is counted here, too: only the next segment knows. */
async function inspect(
  files: SpoolFiles,
  path: string,
  mark: SegmentPosition | null,
  ring: KeyRing,
  found: (request: FoundRequest) => void,
): Promise<SegmentReport> {
  return reading(files, path, async (file) => {
    const {
      header,
      size: bytes,
      fileBytes,
      isUnused,
      damagedAt,
    } = await readHeader(file, mark?.fileBytes ?? null);
    const about = { path, bytes, made: mark?.fileBytes ?? null, isUnused };
    if (header === null) return { ...about, header, requests: 0, damaged: 0, opens: false };
    const { version, firstSequence } = header;
    const key = keyOf(header, ring);
    const described = new Map<number, SpooledTable | null>();
    let [requests, damaged] = [0, damagedAt === null ? 0 : headerBytes];
    const to = Math.min(bytes, recordsEnd(version, fileBytes));
    const stretch = { version, from: headerBytes, to, full: false, after: firstSequence - 1n };
    for await (const it of scanRecords(file, stretch)) {
      if (it.is === 'damage') {
        damaged += it.to - it.from;
        continue;
      }
      const { table: oid, sequence, requests: count } = it.head;
      const opened = key === null ? null : openRecord(it.bytes, it.at, key, version);
      if (key !== null && opened === null) {
        damaged += it.to - it.from;
        continue;
      }
      requests += count;
      if (opened === null) continue;
      const { target, payload } = opened;
      if (count === 0) described.set(oid, decodeTable(payload));
      else
        for (const one of apart({ first: sequence - BigInt(count - 1), last: sequence, payload })) {
          const request = decodeRequest(one.payload);
          const table = target === null ? (described.get(oid) ?? null) : decodeTable(target);
          if (request !== null)
            found({ spool: header.spool.toString('hex'), sequence: one.last, oid, table, ...request });
        }
    }
    return { ...about, header, requests, damaged, opens: key !== null };
  });
}
