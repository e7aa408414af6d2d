import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32, deflateRawSync } from 'node:zlib';
import { readZipEntry } from './zip.ts';

/** One archive of these files, as zip tools write it: local entries, directory, end. */
function zip(files: Readonly<Record<string, { bytes: Buffer; method: 0 | 8 }>>, comment = ''): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const [name, { bytes, method }] of Object.entries(files)) {
    const packed = method === 8 ? deflateRawSync(bytes) : bytes;
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(method, 8);
    local.writeUInt16LE(Buffer.byteLength(name), 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(method, 10);
    entry.writeUInt32LE(crc32(bytes), 16);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(bytes.length, 24);
    entry.writeUInt16LE(Buffer.byteLength(name), 28);
    entry.writeUInt32LE(at, 42);
    directory.push(entry, Buffer.from(name));
    locals.push(local, Buffer.from(name), packed);
    at += local.length + Buffer.byteLength(name) + packed.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt32LE(at, 16);
  end.writeUInt16LE(comment.length, 20);
  return Buffer.concat([...locals, ...directory, end, Buffer.from(comment)]);
}

test('the zip reader finds entries, compressed or not, behind a comment', async () => {
  const bytes = Buffer.from('the program '.repeat(1_000));
  const archive = zip(
    { 'a/a': { bytes: Buffer.from('x'), method: 0 }, 'b/b': { bytes, method: 8 } },
    'a comment',
  );
  assert.deepEqual(await readZipEntry(archive, 'b/b'), bytes);
  assert.deepEqual(await readZipEntry(archive, 'a/a'), Buffer.from('x'));
});

test('the zip reader reports missing entries, damage and files that are no archive', async () => {
  const archive = zip({ a: { bytes: Buffer.from('stored as it is'), method: 0 } });
  await assert.rejects(readZipEntry(archive, 'b'), /b is not in the archive/);
  const damaged = Buffer.from(archive);
  damaged[35] = (damaged[35] ?? 0) ^ 1;
  await assert.rejects(readZipEntry(damaged, 'a'), /damaged/);
  await assert.rejects(readZipEntry(Buffer.alloc(100), 'a'), /not a zip archive/);
});
