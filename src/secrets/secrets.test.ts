import assert from 'node:assert/strict';
import { createCipheriv, randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { fixedKeys, loadMasterKeys, parseMasterKeys } from './key-ring.ts';
import { MasterKeyError, parseMasterKey, readKeyFile } from './key-file.ts';
import { createSealing, SealError } from './sealing.ts';
import { putNewKeyInFront, retireOldKeys } from './rotation.ts';

suite('sealing encrypts and authenticates', () => {
  const sealing = createSealing(randomBytes(32));

  test('sealing opens what it sealed, and never gives the same bytes twice', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, identity) => {
        const sealed = sealing.seal(text, identity);
        assert.equal(sealing.open(sealed, identity), text);
        assert.notEqual(sealing.seal(text, identity), sealed);
      }),
    );
  });

  test('sealed text with a flipped bit, another identity or another key is refused', () => {
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

suite('sealing works with several master keys', () => {
  const [first, second, third] = [randomBytes(32), randomBytes(32), randomBytes(32)];
  const before = createSealing(fixedKeys(first)).seal('text', 'it');

  test('the first of several master keys seals, and all of them open', () => {
    const both = createSealing(fixedKeys(second, first));
    assert.equal(both.open(before, 'it'), 'text');
    assert.equal(both.isCurrent(before), false);
    const after = both.seal('text', 'it');
    assert.equal(both.isCurrent(after), true);
    assert.equal(createSealing(second).open(after, 'it'), 'text');
    assert.throws(() => createSealing(first).open(after, 'it'), SealError);
    assert.throws(() => createSealing(third).open(before, 'it'), SealError);
  });

  test('values sealed before keys had ids are opened by whichever key sealed them', () => {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', first, nonce).setAAD(Buffer.from('it'));
    const text = Buffer.concat([cipher.update('old text'), cipher.final()]);
    const sealed = Buffer.concat([Buffer.from([1]), nonce, text, cipher.getAuthTag()]).toString('base64');
    const both = createSealing(fixedKeys(second, first));
    assert.equal(both.open(sealed, 'it'), 'old text');
    assert.equal(both.isCurrent(sealed), false);
    assert.throws(() => both.open(sealed, 'other'), SealError);
  });

  test('several master keys in the environment are separated by commas and never shown', () => {
    const [a, b] = [first.toString('base64'), second.toString('base64')];
    assert.deepEqual(
      parseMasterKeys(`${a}, ${b}`, 'X')
        .keys()
        .map(({ key }) => key),
      [first, second],
    );
    for (const text of ['', ',', `${a},short`, Array.from({ length: 9 }, () => a).join(',')]) {
      assert.throws(
        () => parseMasterKeys(text, 'X'),
        (error: Error) => {
          assert(error instanceof MasterKeyError);
          assert(!error.message.includes(a));
          return true;
        },
      );
    }
  });
});

suite('the master key file is created and read safely', () => {
  const withFolder = async (run: (folder: string) => Promise<void>) => {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-key-'));
    try {
      await run(folder);
    } finally {
      await rm(folder, { recursive: true });
    }
  };

  test('the master key file is created once, mode 0600, even by simultaneous starts', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'deep', 'master.key');
      const rings = Array.from({ length: 8 }, () => loadMasterKeys(path));
      assert.throws(() => createSealing(rings[0] ?? assert.fail()).seal('x', 'it'), /no master key/);
      await Promise.all(rings.map((ring) => ring.make()));
      const keys = rings.map((ring) => ring.keys()[0]?.key ?? assert.fail());
      for (const key of keys) assert.deepEqual(key, keys[0]);
      assert.equal((await stat(path)).mode & 0o777, 0o600);
      assert.deepEqual(await readdir(join(folder, 'deep')), ['master.key']);
      assert.equal((await readFile(path, 'utf8')).trim(), keys[0]?.toString('base64'));
    }));

  test('a master key file that others can read, is short or is no base64 is refused without being shown', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'master.key');
      await writeFile(path, randomBytes(32).toString('base64'), { mode: 0o600 });
      await chmod(path, 0o640);
      assert.throws(() => loadMasterKeys(path), /can be read by others/);
      for (const text of ['', 'c2hvcnQ=', 'canary!'.repeat(8), randomBytes(33).toString('base64')]) {
        await writeFile(path, text);
        await chmod(path, 0o600);
        assert.throws(
          () => loadMasterKeys(path),
          (error: Error) => {
            assert(error instanceof MasterKeyError);
            assert(text === '' || !error.message.includes(text));
            return true;
          },
        );
      }
      assert.equal(parseMasterKey(randomBytes(32).toString('base64').replace(/=/g, ''), 'x').length, 32);
    }));

  test('a running process notices a new master key when it seals, and when a sealed value does not open', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'master.key');
      const [here, there] = [loadMasterKeys(path), loadMasterKeys(path)];
      assert.throws(() => createSealing(there).open('', 'it'), SealError);
      await here.make();
      const [old = assert.fail()] = here.keys();
      assert.equal(await putNewKeyInFront(path), true);
      assert.equal(await putNewKeyInFront(path), false, 'going on makes no further key');
      const sealed = createSealing(here).seal('text', 'it');
      assert.equal(here.keys().length, 2);
      assert.deepEqual(here.keys()[1], old);
      assert.equal(createSealing(there).open(sealed, 'it'), 'text');
      const [file] = await retireOldKeys(path, here);
      assert.equal((await stat(path)).mode & 0o777, 0o600);
      assert.equal((await stat(file ?? '')).mode & 0o777, 0o600);
      assert.equal(readKeyFile(path).length, 1);
      assert.deepEqual(readKeyFile(file ?? '')[0], old);
      // What is on its way still opens.
      const left = createSealing(fixedKeys(old.key)).seal('left', 'it');
      assert.equal(createSealing(here).open(left, 'it'), 'left');
      await rm(path);
      assert.equal(createSealing(here).open(createSealing(here).seal('x', 'it'), 'it'), 'x');
      assert.deepEqual((await readdir(folder)).length, 1, 'nothing else is left behind');
    }));
});
