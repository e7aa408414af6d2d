import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { momentText, timeText, wholeMomentText, type Unit } from './epoch.ts';

test("a whole number becomes the same timestamp text by digits and by arithmetic, as of JavaScript's Date", () => {
  const unit = fc.constantFrom('second', 'milli', 'micro', null);
  const number = fc
    .integer({ min: 1, max: 15 })
    .chain((digits) => fc.integer({ min: 0, max: 10 ** digits - 1 }));
  fc.assert(
    fc.property(number, unit, (n, of) => {
      assert.equal(wholeMomentText(n, of), momentText(String(n), of));
    }),
    { numRuns: 20_000 },
  );
  fc.assert(
    fc.property(fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 }), (ms) => {
      const iso = new Date(ms).toISOString().replace('T', ' ');
      const text = iso.endsWith('.000Z') ? iso.replace('.000Z', 'Z') : iso.replace('Z', '000Z');
      assert.equal(momentText(String(ms), 'milli'), text);
    }),
    { numRuns: 20_000 },
  );
});

test('a number in exponent notation becomes the same timestamp as its plain digits', () => {
  const units: Unit[] = ['second', 'milli', 'micro', 'nano'];
  fc.assert(
    fc.property(
      fc.bigInt({ min: -(10n ** 17n), max: 10n ** 17n }),
      fc.nat(3),
      fc.nat(40),
      (n, at, places) => {
        const unit = units[at] ?? 'second';
        const digits = (n < 0n ? -n : n).toString().padStart(places + 1, '0');
        const whole = digits.slice(0, digits.length - places);
        const fraction = places === 0 ? '' : `.${digits.slice(digits.length - places)}`;
        const moved = `${n < 0n ? '-' : ''}${whole}${fraction}e${places}`;
        assert.equal(momentText(moved, unit), momentText(n.toString(), unit));
        assert.equal(timeText(moved, unit), timeText(n.toString(), unit));
      },
    ),
    { numRuns: 5_000 },
  );
});

test('a number that is no timestamp or time is left unchanged', () => {
  for (const number of ['1e19', '-1e300', '99999999999999999999', `1${'0'.repeat(131_000)}`])
    assert.equal(momentText(number, 'second'), null);
  assert.equal(timeText('-1', 'milli'), null);
  assert.equal(timeText('86400001', 'milli'), null);
});
