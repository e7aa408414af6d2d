import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../test/support/headgate.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { realFiles } from './files.ts';
import { encodeTarget } from './format.ts';
import { Spool } from './spool.ts';

test('links and folders in place of spool segments are set aside unread, and do not prevent the start', async (t) => {
  const root = await temporaryFolder(t);
  const id = 'ff'.repeat(16);
  const folder = join(root, id);
  const segment = (number: number) => join(folder, `${String(number).padStart(20, '0')}.seg`);
  mkdirSync(folder);
  writeFileSync(join(root, 'outside'), 'x');
  symlinkSync(join(root, 'outside'), segment(1));
  symlinkSync('/nowhere', segment(2));
  mkdirSync(segment(3));
  const ring = fixedKeys(Buffer.alloc(32, 7));
  const rest = {
    random: randomBytes,
    clock: () => 0,
    bytesLeft: () => Infinity,
    health: { failed: assert.ifError, worked: () => undefined, damaged: () => assert.fail() },
  };
  const spool = await Spool.open({ files: realFiles, root, ring, segmentBytes: 65_536, ...rest }, id);
  assert.deepEqual(
    spool.lost.map(({ segment: name, bytes, reason }) => [name, bytes, reason]),
    [1, 2, 3].map((number) => [`${number}.seg`, 0, 'no header']),
  );
  assert.deepEqual(readdirSync(folder), ['quarantine']);
  const table = { oid: 7, target: encodeTarget(Buffer.from('{}')) };
  await spool.writer.append(table, Buffer.from('kept'));
  assert.deepEqual(
    spool.segments.map(({ number }) => number),
    [4],
  );
  await spool.writer.close();
});
