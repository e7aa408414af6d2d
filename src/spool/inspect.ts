/**
 * Inspects a folder of spools without changing anything in it, for the command line. Takes a folder that no Headgate needs to
 * be running on; returns what its files hold, and their requests if the master key is known. Rejects with the system's errors only.
 */
import { join } from 'node:path';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { SpoolFiles } from './files.ts';
import { decodeHeader, headerBytes, openRecord, segmentKey, splitPayloads } from './format.ts';
import type { SegmentHeader } from './format.ts';
import { decodeRequest, decodeTable } from './kept-request.ts';
import type { KeptHead, KeptTable } from './kept-request.ts';
import { reading, scanRecords, segmentNumber } from './segment.ts';

export interface SegmentReport {
  readonly path: string;
  /** Of the file, used or not. */
  readonly bytes: number;
  /** null: it has no readable header. */
  readonly header: SegmentHeader | null;
  readonly requests: number;
  /** Bytes that cannot be read. */
  readonly damaged: number;
  /** Its master key is known. */
  readonly opens: boolean;
}

export interface FoundRequest {
  readonly sequence: bigint;
  readonly oid: number;
  /** null: nothing readable tells. */
  readonly table: KeptTable | null;
  readonly head: KeptHead;
  readonly body: Buffer;
}

export async function inspectSpools(
  files: SpoolFiles,
  root: string,
  ring: KeyRing,
  found: (request: FoundRequest) => void = () => undefined,
): Promise<readonly SegmentReport[]> {
  const reports: SegmentReport[] = [];
  for (const database of await foldersIn(files, root))
    for (const spool of (await foldersIn(files, database)).filter((path) => /[/\\][0-9a-f]{32}$/.test(path)))
      for (const name of (await files.list(spool)).toSorted())
        if (segmentNumber(name) !== null) reports.push(await inspect(files, join(spool, name), ring, found));
  return reports;
}

async function foldersIn(files: SpoolFiles, folder: string): Promise<readonly string[]> {
  return (await files.list(folder)).toSorted().map((name) => join(folder, name));
}

/** What was refused at the end of a segment is counted here, too: only the next segment knows. */
async function inspect(
  files: SpoolFiles,
  path: string,
  ring: KeyRing,
  found: (request: FoundRequest) => void,
): Promise<SegmentReport> {
  return reading(files, path, async (file) => {
    const bytes = await file.size();
    const start = Buffer.alloc(headerBytes);
    const header = decodeHeader(start.subarray(0, await file.read(start, 0)));
    if (header === null) return { path, bytes, header, requests: 0, damaged: 0, opens: false };
    const masterKey = ring.keys().find(({ id }) => id.equals(header.keyId));
    const key = masterKey === undefined ? null : segmentKey(masterKey, header);
    const tables = new Map<number, KeptTable | null>();
    let [requests, damaged] = [0, 0];
    for await (const it of scanRecords(file, { from: headerBytes, to: bytes, full: false, after: 0n })) {
      if (it.is === 'damage') {
        damaged += it.to - it.from;
        continue;
      }
      const { kind, table: oid, sequence, requests: count } = it.head;
      requests += count;
      const payload = key === null ? null : openRecord(it.bytes, it.at, key);
      if (payload === null) continue;
      if (kind === 'table') tables.set(oid, decodeTable(payload));
      else
        splitPayloads(payload, count).forEach((one, i) => {
          const request = decodeRequest(one);
          const table = tables.get(oid) ?? null;
          if (request !== null) found({ sequence: sequence - BigInt(count - 1 - i), oid, table, ...request });
        });
    }
    return { path, bytes, header, requests, damaged, opens: key !== null };
  });
}
