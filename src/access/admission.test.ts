import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { Networks } from '../kit/networks.ts';
import { Admission, clientAddress } from './admission.ts';
import { parseRate } from '../kit/rate.ts';
import { limits as allLimits } from '../config/limits.ts';
import { RateLimit } from './rate-limit.ts';
import { anyCharacter } from '../../test/support/characters.ts';

function networks(text: string): Networks {
  const read = Networks.parse(text);
  assert.ok(read instanceof Networks);
  return read;
}

const proxies = networks('10.0.0.0/8, fd00::/8');

suite('the address of a client is read from its peer and the headers of trusted proxies', () => {
  test('the client address in X-Forwarded-For is read from its end, past trusted proxies and no further', () => {
    for (const [peer, header, expected] of [
      ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
      ['10.0.0.1', undefined, '10.0.0.1'],
      ['10.0.0.1', '198.51.100.1', '198.51.100.1'],
      ['::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
      ['10.0.0.1', '192.0.2.66, 198.51.100.1', '198.51.100.1'],
      ['10.0.0.1', '192.0.2.66, 198.51.100.1, 10.2.2.2,fd00::7', '198.51.100.1'],
      ['10.0.0.1', '10.9.9.9, 10.8.8.8', '10.9.9.9'],
      ['10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
      ['10.0.0.1', '[2001:DB8::1]:4711', '2001:db8::1'],
      ['10.0.0.1', '[2001:db8::1]', '2001:db8::1'],
      ['fd00::1', '2001:db8::1', '2001:db8::1'],
      ['10.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
      // What a proxy wrote and nobody can read leaves the proxy.
      ['10.0.0.1', 'unknown', '10.0.0.1'],
      ['10.0.0.1', '198.51.100.1, ', '10.0.0.1'],
      ['10.0.0.1', '', '10.0.0.1'],
      ['10.0.0.1', ',', '10.0.0.1'],
      ['10.0.0.1', '198.51.100.1, 10.2.2.2, garbage', '10.0.0.1'],
      ['10.0.0.1', 'garbage, 10.2.2.2', '10.2.2.2'],
      ['10.0.0.1', '"198.51.100.1"', '10.0.0.1'],
      ['', '198.51.100.1', ''],
    ] as const) {
      assert.equal(clientAddress(peer, header, 'x-forwarded-for', proxies), expected, `${peer} ${header}`);
    }
  });

  test("the Forwarded header (RFC 7239) gives the client's address", () => {
    for (const [header, expected] of [
      ['for=198.51.100.1', '198.51.100.1'],
      ['For="[2001:db8:cafe::17]:4711";proto=https', '2001:db8:cafe::17'],
      ['for=192.0.2.66, proto=http;for=198.51.100.1;by=10.0.0.1', '198.51.100.1'],
      ['for="192.0.2.66, for=198.51.100.1', '198.51.100.1'],
      ['for=198.51.100.1, for=10.2.2.2', '198.51.100.1'],
      ['for=unknown', '10.0.0.1'],
      ['for=_hidden, for=10.2.2.2', '10.2.2.2'],
      ['by=10.0.0.1', '10.0.0.1'],
      ['198.51.100.1', '10.0.0.1'],
    ] as const) {
      assert.equal(clientAddress('10.0.0.1', header, 'forwarded', proxies), expected, header);
    }
  });

  test("a forged X-Forwarded-For does not change the client's address, which the first trusted proxy reported", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: anyCharacter }),
        fc.constantFrom('', ', 10.3.3.3', ', 10.3.3.3, fd00::1'),
        (lie, hops) => {
          const header = `${lie}, 198.51.100.1${hops}`;
          assert.equal(clientAddress('10.0.0.1', header, 'x-forwarded-for', proxies), '198.51.100.1');
          const forwarded = `${lie}, for=198.51.100.1${hops.replaceAll(', ', ', for=')}`;
          assert.equal(clientAddress('10.0.0.1', forwarded, 'forwarded', proxies), '198.51.100.1');
        },
      ),
    );
  });
});

suite('a rate limit bounds the requests of each name', () => {
  test('a rate limit admits a burst, then requests at the rate', () => {
    const limit = new RateLimit({ count: 3, perMs: 3_000, burst: 3 }, 10);
    assert.deepEqual(
      [0, 0, 0, 0].map((now) => limit.take('a', now)),
      [0, 0, 0, 1_000],
    );
    assert.equal(limit.take('b', 0), 0);
    assert.equal(limit.take('a', 999), 1);
    assert.equal(limit.take('a', 1_000), 0);
    assert.equal(limit.take('a', 1_001), 999);
    assert.deepEqual(
      [9_000, 9_000, 9_000].map((now) => limit.take('a', now)),
      [0, 0, 0],
    );
    assert.ok(limit.take('a', 9_000) > 0);
  });

  test('a rate limit lets through no more in any period than its burst and its rate allow', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 200 }),
        (count, burst, gaps) => {
          const limit = new RateLimit({ count, perMs: 1_000, burst }, 10);
          const passed: number[] = [];
          let now = 0;
          for (const gap of gaps) {
            now += gap;
            const wait = limit.take('a', now);
            if (wait === 0) passed.push(now);
            // What is promised is kept: a moment before it is refused, at that time it would pass.
            else assert.ok(wait <= 1_000 / count + 1e-6);
          }
          for (let i = 0; i < passed.length; i++) {
            for (let j = i; j < passed.length; j++) {
              const earned = (((passed[j] ?? 0) - (passed[i] ?? 0)) * count) / 1_000;
              assert.ok(j - i + 1 <= burst + earned + 1e-6);
            }
          }
        },
      ),
    );
  });

  test('a rate limit remembers a bounded number of names and forgets the least recently seen', () => {
    const limit = new RateLimit({ count: 1, perMs: 1_000, burst: 1 }, 100);
    for (let i = 0; i < 10_000; i++) assert.equal(limit.take(`n${i}`, 0), 0);
    assert.equal(limit.names, 100);
    assert.ok(limit.take('n9999', 0) > 0);
    assert.equal(limit.take('n1', 0), 0);
  });
});

test('admission checks networks, then the rate of an address or IPv6 network, then the rate of each table', () => {
  let now = 0;
  const gate = new Admission({
    trustedProxies: proxies,
    forwardedHeader: 'x-forwarded-for',
    allowed: networks('198.51.100.0/24, 2001:db8::/32'),
    addressRate: { count: 2, perMs: 60_000, burst: 2 },
    tableRate: { count: 1, perMs: 1_000, burst: 1 },
    clock: () => now,
  });
  const from = (header: string) =>
    gate.refuses(gate.clientAddress('10.0.0.1', { headers: { 'x-forwarded-for': header } }));
  assert.equal(from('192.0.2.1')?.code, 'address_refused');
  assert.equal(gate.refuses('')?.code, 'address_refused');
  assert.equal(from('198.51.100.1'), null);
  assert.equal(from('198.51.100.1'), null);
  const refused = from('198.51.100.1');
  assert.deepEqual([refused?.code, refused?.retryAfterSeconds], ['rate_limited', 30]);
  assert.equal(from('198.51.100.2'), null);
  assert.equal(from('2001:db8::1'), null);
  assert.equal(from('2001:db8::2'), null);
  assert.equal(from('2001:db8::3')?.code, 'rate_limited');
  const table = { database: 'd', schema: 's', table: 't' };
  gate.admitTable(table);
  assert.throws(() => gate.admitTable(table), { message: 'too many requests for this table' });
  gate.admitTable({ ...table, table: 'u' });
  now = 1_000;
  gate.admitTable(table);
});

suite('processes that share a rate limit keep it together', () => {
  test('processes that share a rate limit pass no more together than the rate and a burst of each', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(2), fc.integer({ min: 1, max: 400 })), { minLength: 1, maxLength: 600 }),
        (steps) => {
          const rate = { count: 10, perMs: 1_000, burst: 10 };
          const limits = [0, 1, 2].map(() => new RateLimit(rate, 100, true));
          let [now, passed, toldAt] = [0, 0, 0];
          for (const [which, pauseMs] of steps) {
            now += pauseMs / 10;
            if (now - toldAt >= 100) {
              toldAt = now;
              const told = limits.map((limit) => limit.told());
              told.forEach((taken, from) =>
                limits.forEach((limit, to) => to !== from && limit.charge(taken, now)),
              );
            }
            if (limits[which]?.take('a', now) === 0) passed += 1;
          }
          // What one would let pass, and once more for each of the others before it has heard.
          const alone = 10 + Math.ceil(now / 100);
          assert.ok(passed <= alone + 2 * 12, `${passed} in ${now} ms`);
        },
      ),
    );
  });

  test('processes that share a rate limit admit no more of a flood in any second than the rate and a small burst of each', () => {
    for (const of of [1, 2, 4]) {
      const limits = Array.from(
        { length: of },
        () => new RateLimit(parseRate('200/s') ?? never(), 100, true),
      );
      const passed: number[] = [];
      for (let now = 0; now < 5_000; now++) {
        if (now % allLimits.rateToldMs === 0) {
          const told = limits.map((limit) => limit.told());
          told.forEach((taken, from) =>
            limits.forEach((limit, to) => to !== from && limit.charge(taken, now)),
          );
        }
        for (const limit of limits)
          for (let i = 0; i < 5; i++) if (limit.take('a', now) === 0) passed.push(now);
      }
      // The burst is 20; in 25 ms 5 are earned.
      const inASecond = passed.map((from) => passed.filter((at) => at >= from && at < from + 1_000).length);
      assert.ok(Math.max(...inASecond) <= 200 + of * 26, `${Math.max(...inASecond)} with ${of}`);
      assert.ok(passed.length >= 5 * 200 * 0.99, `${passed.length} in 5 s`);
    }
  });
});

function never(): never {
  throw new Error('this is a rate');
}
