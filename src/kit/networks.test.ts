import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { canonicalAddress, clientNetwork, isLoopbackHost } from './address.ts';
import { Networks } from './networks.ts';
import { parseRate } from './rate.ts';

test('each IP address has one canonical text', () => {
  for (const [given, expected] of [
    ['203.0.113.9', '203.0.113.9'],
    ['::ffff:203.0.113.9', '203.0.113.9'],
    ['::FFFF:cb00:7109', '203.0.113.9'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['::1', '::1'],
    ['', null],
    ['203.0.113.9:80', null],
    ['[::1]', null],
    ['1.2.3', null],
    ['01.2.3.4', null],
    ['localhost', null],
    ['1.2.3.4 ', null],
  ] as const) {
    assert.equal(canonicalAddress(given), expected, given);
  }
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
      const once = canonicalAddress(text);
      assert.ok(once !== null);
      assert.equal(canonicalAddress(once), once);
    }),
  );
});

test("a client's network is its IPv4 address or its IPv6 /64", () => {
  for (const [address, expected] of [
    ['203.0.113.9', '203.0.113.9'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8:0:0::/64'],
    ['2001:db8::3:4:5:6', '2001:db8:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::1.2.3.4', '0:0:0:0::/64'],
    ['64:ff9b::1.2.3.4', '64:ff9b:0:0::/64'],
    ['2001:db8:1:2:3:4:5::', '2001:db8:1:2::/64'],
    ['', ''],
  ] as const) {
    assert.equal(clientNetwork(address), expected, address);
  }
  const group = fc.integer({ min: 0, max: 0xffff }).map((n) => n.toString(16));
  const groups = fc.array(group, { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(groups, groups, groups, (net, a, b) => {
      const of = (rest: string[]) => clientNetwork(canonicalAddress([...net, ...rest].join(':')) ?? '');
      // An address that is IPv4 in disguise is its own network.
      fc.pre([a, b].every((rest) => of(rest).includes(':')));
      assert.equal(of(a), of(b));
      assert.equal(of(a), `${net.join(':')}::/64`);
    }),
  );
});

test('networks match their addresses, and malformed ones are refused', () => {
  const networks = Networks.parse('10.0.0.0/8, 192.0.2.7 2001:db8::/32,fe80::1');
  assert.ok(networks instanceof Networks);
  for (const inside of ['10.0.0.0', '10.255.255.255', '192.0.2.7', '2001:db8:ffff::1', 'fe80::1'])
    assert.ok(networks.has(inside), inside);
  for (const outside of ['11.0.0.0', '9.255.255.255', '192.0.2.8', '2001:db9::', 'fe80::2', '::'])
    assert.ok(!networks.has(outside), outside);
  const all = Networks.parse('0.0.0.0/0, ::/0');
  assert.ok(all instanceof Networks && all.has('203.0.113.9') && all.has('2001:db8::1'));
  for (const [text, wrong] of [
    ['', ''],
    [' , ', ' , '],
    ['10.0.0.0/33', '10.0.0.0/33'],
    ['10.0.0.0/', '10.0.0.0/'],
    ['10.0.0.0/-1', '10.0.0.0/-1'],
    ['10.0.0.0/8/8', '10.0.0.0/8/8'],
    ['10.0.0/8', '10.0.0/8'],
    ['::/129', '::/129'],
    ['::ffff:10.0.0.0/104', '::ffff:10.0.0.0/104'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['127.0.0.1, proxy.example', 'proxy.example'],
  ] as const) {
    assert.deepEqual(Networks.parse(text), { wrong });
  }
});

test('rate settings and loopback host names are parsed', () => {
  assert.deepEqual(parseRate('100/s'), { count: 100, perMs: 1_000, burst: 10 });
  assert.deepEqual(parseRate(' 600 / min '), { count: 600, perMs: 60_000, burst: 60 });
  assert.deepEqual(parseRate('1/h'), { count: 1, perMs: 3_600_000, burst: 1 });
  assert.deepEqual(parseRate('100/s burst 250'), { count: 100, perMs: 1_000, burst: 250 });
  assert.equal(parseRate('50/s')?.burst, 10);
  for (const none of ['', '0/s', '10', '10/d', '-1/s', '1.5/s', '10/ss', '1e3/s', '1000000000/s'])
    assert.equal(parseRate(none), null, none);
  for (const host of ['localhost', '::1', '127.0.0.1', '127.8.9.10']) assert.ok(isLoopbackHost(host));
  for (const host of ['0.0.0.0', '::', '127.0.0.1.example.com', '10.0.0.1']) assert.ok(!isLoopbackHost(host));
});
