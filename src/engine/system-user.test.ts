import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePasswd } from './system-user.ts';

test('/etc/passwd is read as Linux and macOS write it, and malformed lines are skipped', () => {
  const users = parsePasswd(
    [
      '# comment',
      'root:x:0:0:root:/root:/bin/sh',
      'nobody:*:-2:-2::/:',
      'broken:x',
      '+::::::',
      'root:x:5:5::/:',
      '',
    ].join('\n'),
  );
  assert.deepEqual(
    [...users],
    [
      ['root', { uid: 0, gid: 0 }],
      ['nobody', { uid: 4_294_967_294, gid: 4_294_967_294 }],
    ],
  );
});
