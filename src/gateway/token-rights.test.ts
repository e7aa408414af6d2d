import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { askTokens } from './token-rights.ts';

interface Asked {
  readonly database: string;
  readonly sql: string;
  readonly answer: (rows: readonly object[] | null) => void;
  readonly fail: (error: unknown) => void;
}

function stage() {
  const asked: Asked[] = [];
  const ask = askTokens({
    asked: <Row extends object>(database: string, sql: string) =>
      new Promise<readonly Row[] | null>((resolve, reject) => {
        const answer = (rows: readonly object[] | null) => resolve(rows as readonly Row[] | null);
        asked.push({ database, sql, answer, fail: reject });
      }),
  });
  return { asked, ask };
}

const row = (id: string | null) => ({ id, origins: [], rate: null, relations: [7], origin_known: true });
const question = (hash: string | null, origin: string | null = null) => ({ reads: false, hash, origin });
const hashes = (sql = '') => sql.match(/'\d+'/g)?.length ?? 0;

test('token checks during a running query join the next query, and each gets its own answer', async () => {
  const { asked, ask } = stage();
  const first = ask('dev', question('0'));
  const count = limits.tokensAskedMax + 10;
  const others = Array.from({ length: count }, (_, i) => ask('dev', question(String(i + 1))));
  const elsewhere = ask('app', question('9'));
  assert.deepEqual(
    asked.map(({ database, sql }) => [database, hashes(sql)]),
    [
      ['dev', 1],
      ['app', 1],
    ],
  );
  asked[0]?.answer([row('first')]);
  asked[1]?.answer(null);
  assert.equal((await first).grant?.id, 'first');
  assert.deepEqual(await elsewhere, { grant: null, originKnown: false });
  assert.equal(hashes(asked[2]?.sql), limits.tokensAskedMax);
  asked[2]?.answer(Array.from({ length: limits.tokensAskedMax }, (_, i) => row(i === 1 ? 'right' : null)));
  const answers = await Promise.all(others.slice(0, limits.tokensAskedMax));
  assert.deepEqual(
    answers.flatMap(({ grant }) => grant?.id ?? []),
    ['right'],
  );
  assert.ok(answers[0]?.originKnown && answers[1]?.grant?.relations.has(7));
  asked[3]?.fail(new Refused('engine_unavailable'));
  for (const other of others.slice(limits.tokensAskedMax))
    await assert.rejects(other, { message: /not available/ });
  assert.equal(asked.length, 4);
  // Nobody is left behind one that failed.
  const after = ask('dev', question(null, 'https://a.example'));
  asked[4]?.answer([row(null)]);
  assert.deepEqual(await after, { grant: null, originKnown: true });
});

test('any Origin header is passed to the token query as text', async () => {
  const { asked, ask } = stage();
  void ask('dev', question(null, `'], array['x']); drop table t --\\`));
  assert.match(asked[0]?.sql ?? '', /array\[ ?E'''\], array\[''x''\]\); drop table t --\\\\'\]/);
});
