/**
 * Reads one file from a zip archive, using only Node: the tests' helm and kubectl come in one. Supports stored and
 * deflated entries below 4 GiB, as in archives of programs; anything else is an error.
 */
import { promisify } from 'node:util';
import { crc32, inflateRaw } from 'node:zlib';

const endOfDirectory = 0x06054b50;
const directoryEntry = 0x02014b50;
const localEntry = 0x04034b50;

export async function readZipEntry(archive: Buffer, name: string): Promise<Buffer> {
  let at = directoryStart(archive);
  for (; archive.readUInt32LE(at) === directoryEntry; at = nextEntry(archive, at)) {
    if (archive.toString('utf8', at + 46, at + 46 + archive.readUInt16LE(at + 28)) !== name) continue;
    const bytes = await contentOf(archive, at);
    if (bytes.length !== archive.readUInt32LE(at + 24) || crc32(bytes) !== archive.readUInt32LE(at + 16)) {
      throw new Error(`${name} is damaged in its archive`);
    }
    return bytes;
  }
  throw new Error(`${name} is not in the archive`);
}

/** The last record of an archive gives the position of the directory; a comment of up to 64 KiB may follow it. */
function directoryStart(archive: Buffer): number {
  for (let at = archive.length - 22; at >= Math.max(0, archive.length - 22 - 0xffff); at--) {
    if (archive.readUInt32LE(at) === endOfDirectory) return archive.readUInt32LE(at + 16);
  }
  throw new Error('not a zip archive');
}

function nextEntry(archive: Buffer, at: number): number {
  const lengths = [28, 30, 32].map((field) => archive.readUInt16LE(at + field));
  return at + 46 + lengths.reduce((sum, length) => sum + length, 0);
}

async function contentOf(archive: Buffer, entry: number): Promise<Buffer> {
  const at = archive.readUInt32LE(entry + 42);
  if (archive.readUInt32LE(at) !== localEntry) throw new Error('a zip archive with a broken directory');
  const start = at + 30 + archive.readUInt16LE(at + 26) + archive.readUInt16LE(at + 28);
  const packed = archive.subarray(start, start + archive.readUInt32LE(entry + 20));
  const method = archive.readUInt16LE(entry + 10);
  if (method === 0) return packed;
  if (method !== 8) throw new Error(`zip method ${method} is not known`);
  return promisify(inflateRaw)(packed);
}
