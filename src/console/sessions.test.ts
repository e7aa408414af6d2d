import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { isOwnHost } from './console.ts';
import { LoginTries } from './login-routes.ts';
import { ConsoleSessions } from './sessions.ts';

const who = { kind: 'owner' } as const;

function opened() {
  const released: string[] = [];
  return { released, sessions: new ConsoleSessions<string>((held) => void released.push(held)) };
}

test('a console login link works once, within its time, and the oldest is evicted', () => {
  const { links } = opened().sessions;
  const link = links.make(0);
  assert.equal(link.length, 43);
  assert.equal(links.use(link, 1), true);
  assert.equal(links.use(link, 2), false);
  const late = links.make(0);
  assert.equal(links.use(late, limits.consoleLinkMs), false);
  const first = links.make(0);
  for (let i = 0; i < limits.consoleLinksMax; i++) links.make(0);
  assert.equal(links.use(first, 1), false);
  assert.equal(links.use('', 1), false);
});

test('a console session ends when idle, at its maximum age and at a logout, and releases its resources once', () => {
  const { sessions, released } = opened();
  const token = sessions.begin(who, 'a', 0) ?? '';
  assert.notEqual(sessions.find(token, limits.consoleIdleMs - 1, true), null);
  // A page that asks by itself is nobody who is there.
  assert.notEqual(sessions.find(token, 2 * limits.consoleIdleMs - 2, false), null);
  assert.equal(sessions.find(token, 2 * limits.consoleIdleMs - 1, true), null);
  assert.deepEqual(released, ['a']);
  const busy = sessions.begin(who, 'b', 0) ?? '';
  let ended: AbortSignal | null = null;
  for (let at = 0; at < limits.consoleSessionMs; at += limits.consoleIdleMs / 2)
    ended = sessions.find(busy, at, true)?.ended.signal ?? null;
  assert.equal(ended?.aborted, false);
  assert.equal(sessions.find(busy, limits.consoleSessionMs, true), null);
  assert.equal(ended?.aborted, true);
  const out = sessions.begin(who, 'c', 0) ?? '';
  sessions.end(out);
  sessions.end(out);
  assert.equal(sessions.find(out, 1, true), null);
  assert.deepEqual(released, ['a', 'b', 'c']);
});

test('an ended console session gives no token to another tab', () => {
  const { sessions } = opened();
  const token = sessions.begin(who, 'a', 0) ?? '';
  const session = sessions.find(token, 1, true) ?? assert.fail();
  const tab = sessions.tab(session, 2) ?? '';
  assert.equal(sessions.find(tab, 3, true), session);
  sessions.end(token);
  assert.equal(sessions.tab(session, 4), null);
  assert.equal(sessions.find(tab, 5, true), null);
});

test('a console login has at most 16 tabs: a new one evicts the least recently used, and a logout ends all', () => {
  const { sessions, released } = opened();
  const first = sessions.begin(who, 'a', 0) ?? '';
  const session = sessions.find(first, 1, true) ?? assert.fail();
  const tabs = Array.from({ length: 15 }, (_, i) => sessions.tab(session, 2 + i) ?? '');
  const [second = ''] = tabs;
  assert.equal(new Set([first, ...tabs]).size, 16);
  // The first one is used, and stays.
  assert.equal(sessions.find(first, 20, true), session);
  const last = sessions.tab(session, 21) ?? '';
  assert.equal(sessions.find(second, 22, true), null);
  for (const token of [first, ...tabs.slice(1), last])
    assert.equal(sessions.find(token, 23, true)?.login.id, session.login.id);
  sessions.end(last);
  for (const token of [first, ...tabs, last]) assert.equal(sessions.find(token, 24, true), null);
  assert.deepEqual(released, ['a']);
});

const root = { kind: 'role', user: 'root', password: null, database: 'dev' } as const;

test('a link that shares a console login works once, in its time, under its host name, and ends with that login', () => {
  const { sessions, released } = opened();
  const token = sessions.begin(root, 'maker', 0) ?? '';
  const maker = sessions.find(token, 1, true) ?? assert.fail();
  const made = (atMs: number): string => sessions.share(maker, 'localhost:1', atMs) ?? assert.fail();
  const key = made(1);
  assert.equal(key.length, 43);
  assert.equal(sessions.sharedLink(key, 'localhost:2', 2, true), null);
  assert.equal(sessions.sharedLink(`${key.slice(1)}A`, 'localhost:1', 2, true), null);
  assert.notEqual(sessions.sharedLink(key, 'LOCALHOST:1', 2, false), null);
  const link = sessions.sharedLink(key, 'localhost:1', 3, true) ?? assert.fail();
  assert.equal(sessions.sharedLink(key, 'localhost:1', 3, true), null);
  const guestToken = sessions.beginShared(link, root, 'guest', 4) ?? '';
  const guest = sessions.find(guestToken, 5, true) ?? assert.fail();
  assert.equal(sessions.share(guest, 'localhost:1', 6), null);
  assert.equal(sessions.sharedLink(made(7), 'localhost:1', 7 + limits.consoleLinkMs, true), null);
  // A process that starts anew knows none.
  assert.equal(opened().sessions.sharedLink(made(8), 'localhost:1', 8, true), null);
  // Used, but the login ends before the role has answered.
  const late = sessions.sharedLink(made(9), 'localhost:1', 9, true) ?? assert.fail();
  const left = made(10);
  sessions.end(token);
  assert.deepEqual(released, ['maker', 'guest']);
  assert.equal(guest.ended.signal.aborted, true);
  assert.equal(sessions.find(guestToken, 11, true), null);
  assert.equal(sessions.sharedLink(left, 'localhost:1', 11, true), null);
  assert.equal(sessions.beginShared(late, root, 'late', 11), null);
});

test('a console login by a shared link ends no later than the login that it shares', () => {
  const { sessions, released } = opened();
  const share = (token: string, atMs: number, held: string): string => {
    const maker = sessions.find(token, atMs, true) ?? assert.fail();
    const key = sessions.share(maker, 'h', atMs) ?? assert.fail();
    return (
      sessions.beginShared(sessions.sharedLink(key, 'h', atMs, true) ?? assert.fail(), root, held, atMs) ?? ''
    );
  };
  // Nobody uses the maker's: the guest, who does, does not keep it alive.
  const idle = share(sessions.begin(root, 'idle', 0) ?? '', 0, 'guest of idle');
  assert.notEqual(sessions.find(idle, limits.consoleIdleMs - 1, true), null);
  assert.equal(sessions.find(idle, limits.consoleIdleMs, true), null);
  sessions.sweep(limits.consoleIdleMs);
  const old = sessions.begin(root, 'old', 0) ?? '';
  let guest = '';
  for (let at = 0; at < limits.consoleSessionMs; at += limits.consoleIdleMs / 2) {
    assert.notEqual(sessions.find(old, at, true), null);
    if (at === limits.consoleIdleMs) guest = share(old, at, 'guest of old');
    if (at > limits.consoleIdleMs) assert.notEqual(sessions.find(guest, at, true), null);
  }
  assert.equal(sessions.find(guest, limits.consoleSessionMs, true), null);
  sessions.sweep(limits.consoleSessionMs);
  assert.deepEqual(released, ['guest of idle', 'idle', 'guest of old', 'old']);
});

test('links and logins that share one console login are bounded together', () => {
  const { sessions } = opened();
  const maker = sessions.find(sessions.begin(root, 'maker', 0) ?? '', 1, true) ?? assert.fail();
  const keys = Array.from({ length: limits.consoleSharedMax }, () => sessions.share(maker, 'h', 1) ?? '');
  assert.equal(new Set(keys).size, limits.consoleSharedMax);
  assert.equal(sessions.share(maker, 'h', 1), null);
  const tokens = keys.map(
    (key) =>
      sessions.beginShared(sessions.sharedLink(key, 'h', 2, true) ?? assert.fail(), root, key, 2) ?? '',
  );
  assert.equal(sessions.share(maker, 'h', 3), null);
  sessions.end(tokens[0] ?? '');
  assert.notEqual(sessions.share(maker, 'h', 4), null);
  // A guest may end the logins of others of the role that has most, but not the one that he shares.
  const crowded = opened().sessions;
  const of = crowded.find(crowded.begin(root, 'first', 0) ?? '', 1, true) ?? assert.fail();
  const key = crowded.share(of, 'h', 1) ?? '';
  for (let i = 1; i < limits.consoleSessionsMax; i++) crowded.begin(root, String(i), 10 + i);
  const link = crowded.sharedLink(key, 'h', 100, true) ?? assert.fail();
  assert.notEqual(crowded.beginShared(link, root, 'guest', 100), null);
  assert.equal(of.ended.signal.aborted, false);
  assert.equal(crowded.size, limits.consoleSessionsMax);
});

test('a console session beyond the bound evicts the least recently used one', () => {
  const { sessions, released } = opened();
  const tokens = Array.from(
    { length: limits.consoleSessionsMax },
    (_, i) => sessions.begin(who, String(i), i) ?? '',
  );
  sessions.find(tokens[0] ?? '', 100, true);
  sessions.begin(who, 'more', 101);
  assert.deepEqual(released, ['1']);
  assert.equal(sessions.size, limits.consoleSessionsMax);
  sessions.close();
  assert.equal(released.length, limits.consoleSessionsMax + 1);
});

test('console logins are limited to five attempts a minute from one network', () => {
  const tries = new LoginTries();
  for (let i = 0; i < 5; i++) assert.equal(tries.try('192.0.2.1', i), true);
  assert.equal(tries.try('192.0.2.1', 59_999), false);
  assert.equal(tries.try('192.0.2.2', 59_999), true);
  assert.equal(tries.try('192.0.2.1', 60_000), true);
  assert.equal(tries.try('192.0.2.1', 60_000), false);
  for (let i = 0; i < 5; i++) tries.try(`2001:db8::${i}`, 0);
  assert.equal(tries.try('2001:db8::ffff', 0), false);
  for (let i = 0; i < limits.consoleTriersMax; i++) tries.try(`10.${i >> 8}.${i & 255}.1`, 60_000);
  assert.equal(tries.try('192.0.2.1', 60_001), true);
});

test('the console accepts loopback and configured host names only, in any spelling', () => {
  const more = ['console.example.com', '10.0.0.5:4561'];
  for (const host of [
    'localhost',
    'LOCALHOST:4561',
    '127.0.0.1:1',
    '127.9.9.9',
    '[::1]:4561',
    'Console.Example.com',
    'console.example.com:444',
    '10.0.0.5:4561',
  ])
    assert.equal(isOwnHost(host, more), true, host);
  for (const host of [
    undefined,
    '',
    'evil.example',
    'localhost.evil.example',
    'localhost:80:80',
    'user@localhost',
    'localhost/evil',
    '127.0.0.1.evil.example',
    '127.1',
    '2130706433',
    '0.0.0.0',
    '[::]',
    '10.0.0.5',
    '10.0.0.5:80',
    'localhost evil',
    '[::ffff:127.0.0.1]evil',
    'localhost.',
  ])
    assert.equal(isOwnHost(host, more), false, host);
});
