import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, prepareDifferential, runDifferential } from '../../test/support/json-differential.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { times } from '../../test/support/sample.ts';

/** Documents on which an implementation could plausibly differ from the server, found by reading and by generated runs. */
const corpus = [
  '', ' ', '\ufeff{}', '{}\u0000', '{} x', '1 2', '[1,]', '{"a":1,}', '{,}', '[', ']', '{"a"}', '{"a":}', '{1:2}', "{'a':1}",
  'tru', 'truex', 'True', 'nulll', 'null', '-', '-0', '+1', '01', '1.', '.5', '1e', '1e+', '0x10', 'NaN', 'Infinity', '1_000',
  '1e131071', '1e131072', '10e131071', '0.1e131072', '0.01e131074', '9e-16383', '1e-16384', '0e-16384', '0e999999', '0.0e131080',
  '0e1073741822', '0e1073741824', '1e99999999999999999999', '0e99999999999999999999', '0e-99999999999999999999',
  `1${'0'.repeat(131_071)}`, `1${'0'.repeat(131_072)}`, `0.${'0'.repeat(16_383)}`, `0.${'0'.repeat(16_384)}`,
  `1${'0'.repeat(131_072)}e-1`, `1${'0'.repeat(131_080)}e-10`, `0.${'1'.repeat(20_000)}e4000`, `0.${'1'.repeat(20_000)}e3000`,
  '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\ud83d\\ud83d"', '"\\ud83d\\n"', '"\\ud83dx"', '"\\u0000"', '"\\\\u0000"',
  '{"\\u0000":1}', '"\t"', '"\u007f"', '"\u0080"', '"\\a"', '"\\u00g0"', '"\\u 041"', '"abc', '"abc\\', '"abc\\u00', '\u00a0{}', '\f{}', '\v1',
  `${'['.repeat(512)}${']'.repeat(512)}`, `${'{"a":'.repeat(511)}{}${'}'.repeat(511)}`, '{"a":1,"a":2}', '[[]]]', '[}', '{]', '{"a":1]',
]; // prettier-ignore

test('the JSON scanner accepts exactly the documents that jsonb accepts', async (t) => {
  const client = await (await testDatabase(t)).connect();
  await prepareDifferential(client);

  await t.test('the JSON scanner agrees with jsonb on a corpus of edge cases', async () => {
    const { mismatches, accepted, refused } = await compare(
      client,
      corpus.map((document) => Buffer.from(document)),
    );
    assert.deepEqual(mismatches, []);
    assert.ok(accepted > 15 && refused > 40);
  });

  await t.test(
    'the JSON scanner agrees with jsonb on thousands of generated and broken documents',
    async () => {
      const { mismatches, accepted, refused } = await runDifferential(
        client,
        times(4_000, 40_000),
        Math.floor(Math.random() * 2 ** 30),
      );
      assert.deepEqual(mismatches, []);
      assert.ok(accepted > 400 && refused > 400, `${accepted} accepted, ${refused} refused`);
    },
  );
});
