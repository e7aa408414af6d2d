import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { loadMasterKey, MasterKeyError, parseMasterKey } from './master-key.ts';
import { createSealing, SealError } from './sealing.ts';

suite('sealing', () => {
  const sealing = createSealing(randomBytes(32));

  test('opens what it sealed, and never seals the same text the same way', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, identity) => {
        const sealed = sealing.seal(text, identity);
        assert.equal(sealing.open(sealed, identity), text);
        assert.notEqual(sealing.seal(text, identity), sealed);
      }),
    );
  });

  test('refuses a flipped bit anywhere, another identity and another key', () => {
    const sealed = Buffer.from(sealing.seal('whsec_1', 'secret:s:1'), 'base64');
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const changed = Buffer.from(sealed);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      assert.throws(() => sealing.open(changed.toString('base64'), 'secret:s:1'), SealError, `bit ${bit}`);
    }
    assert.throws(() => sealing.open(sealed.toString('base64'), 'secret:t:1'), SealError);
    assert.throws(
      () => createSealing(randomBytes(32)).open(sealed.toString('base64'), 'secret:s:1'),
      SealError,
    );
    assert.throws(() => sealing.open('', 'secret:s:1'), SealError);
  });
});

suite('master key file', () => {
  const withFolder = async (run: (folder: string) => Promise<void>) => {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-key-'));
    try {
      await run(folder);
    } finally {
      await rm(folder, { recursive: true });
    }
  };

  test('is made once, 0600, with nothing left beside it, even by starts at the same time', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'deep', 'master.key');
      const keys = await Promise.all(Array.from({ length: 8 }, () => loadMasterKey(path)));
      for (const key of keys) assert.deepEqual(key, keys[0]);
      assert.equal((await stat(path)).mode & 0o777, 0o600);
      assert.deepEqual(await readdir(join(folder, 'deep')), ['master.key']);
      assert.equal((await readFile(path, 'utf8')).trim(), keys[0]?.toString('base64'));
    }));

  test('refuses a file that others can read, a short key and no base64, without showing it', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'master.key');
      await writeFile(path, randomBytes(32).toString('base64'), { mode: 0o600 });
      await chmod(path, 0o640);
      await assert.rejects(loadMasterKey(path), /can be read by others/);
      for (const text of ['', 'c2hvcnQ=', 'canary!'.repeat(8), randomBytes(33).toString('base64')]) {
        await writeFile(path, text);
        await chmod(path, 0o600);
        await assert.rejects(loadMasterKey(path), (error: Error) => {
          assert(error instanceof MasterKeyError);
          assert(text === '' || !error.message.includes(text));
          return true;
        });
      }
      assert.equal(parseMasterKey(randomBytes(32).toString('base64').replace(/=/g, ''), 'x').length, 32);
    }));
});
