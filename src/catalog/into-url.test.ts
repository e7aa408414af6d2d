import assert from 'node:assert/strict';
import { test } from 'node:test';
import { destinationOf } from './into-url.ts';

const hosts = ['rw.example.com:4566', '[::1]:4566'];

test('the connection string of an option into may name an allowed host and nothing else', () => {
  const { key, ...into } = destinationOf(
    ' postgresql://u%40x:p%2Fw@RW.example.com:4566/dev?sslmode=verify-full\n',
    hosts,
    false,
  );
  assert.match(key, /^[0-9a-f]{64}$/);
  assert.deepEqual(into, {
    host: 'rw.example.com',
    port: 4566,
    user: 'u@x',
    password: 'p/w',
    database: 'dev',
    tls: 'verified',
    passwordRequired: true,
  });
  const bare = destinationOf('postgresql://root@rw.example.com:4566/dev', hosts, true);
  assert.deepEqual([bare.password, bare.tls, bare.passwordRequired], ['', 'none', false]);
  assert.equal(destinationOf('postgresql://u:p@[::1]:4566/dev', hosts, false).port, 4566);
  const keys = [
    destinationOf('postgresql://u:p@rw.example.com:4566/dev', hosts, false).key,
    destinationOf('postgresql://u:p@rw.example.com:4566/dev', hosts, true).key,
    destinationOf('postgresql://u:q@rw.example.com:4566/dev', hosts, false).key,
  ];
  assert.equal(new Set(keys).size, 3);
});

test('a connection string of an option into with another form or host is refused without being shown', () => {
  for (const [text, why] of [
    [
      'postgresql://u:secret@other.example.com:4566/dev',
      /^HEADGATE_INTO_HOSTS does not name other.example.com:4566$/,
    ],
    ['postgresql://u:secret@rw.example.com:5432/dev', /does not name rw.example.com:5432$/],
    ['postgresql://u:secret@rw.example.com/dev', /form/],
    ['postgresql://u:secret@rw.example.com:4566/dev?host=/tmp', /form/],
    ['postgresql://u:secret@rw.example.com:4566/dev?sslmode=verify-full&sslkey=/etc/passwd', /form/],
    ['postgresql://u:secret@rw.example.com:4566/dev?sslmode=prefer', /form/],
    ['postgresql://u:secret@rw.example.com:4566,other:1/dev', /form/],
    ['postgresql://u:secret@a:1@rw.example.com:4566/dev', /form/],
    ['postgresql://u:secret@%2Ftmp:4566/dev', /form/],
    ['postgresql://u:secret@rw.example.com:4566/dev#@other:1', /form/],
    ['postgresql://u%00options%00-c%20x:secret@rw.example.com:4566/dev', /control character/],
    ['postgresql://u:secret%00@rw.example.com:4566/dev', /control character/],
    ['postgresql://u:secret@rw.example.com:4566/dev%0a', /control character/],
    ['http://u:secret@rw.example.com:4566/dev', /form/],
    ['secret', /form/],
    ['', /form/],
  ] as const)
    assert.throws(
      () => destinationOf(text, hosts, true),
      (error: Error) => why.test(error.message) && !error.message.includes('secret@'),
      text,
    );
});
