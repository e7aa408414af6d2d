/** headgate.endpoint_states: what is said of a table after these answers, in this order, counted by one process or by two. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import type { Client } from 'pg';
import { connect, makeTable } from '../../test/support/rejected.ts';
import { embeddedBin, startServer, type TestServer } from '../../test/support/server.ts';
import { limits } from '../config/limits.ts';
import { addTraffic, TrafficCounts } from '../reject/traffic.ts';
import type { CountedAnswer } from '../reject/traffic.ts';

/** One letter an answer: stored, kept on disk, a wrong signature, 422, 503, no signature, 411. */
const codes = {
  s: 'committed',
  d: 'spooled',
  u: 'signature_failed',
  r: 'payload_undecodable',
  a: 'engine_unavailable',
  n: 'signature_failed',
  l: 'length_required',
} as const;

/** What is kept of those that are: whether the check had accepted them, and its cause. */
const kept: Readonly<Record<string, readonly [boolean, string | null]>> = {
  u: [false, '{"kind":"signature"}'],
  r: [true, null],
  n: [false, '{"kind":"missing"}'],
  l: [false, null],
};
type Letter = keyof typeof codes;

const answered = (letter: Letter): CountedAnswer => ({
  kind: 'request.answered',
  table: null,
  status: 0,
  code: codes[letter],
  rows: 0,
  seconds: 0.001,
});

interface Known {
  readonly state: string;
  readonly since: Date | null;
  readonly counts: readonly number[];
}

async function stateOf(client: Client, table: string): Promise<Known | undefined> {
  const { rows } = await client.query<Known>(
    `select state, since, array[since_unauthorized, since_refused, since_unavailable]::int[] as counts
     from headgate.endpoint_states where table_name = $1`,
    [table],
  );
  return rows[0];
}

suite('headgate.endpoint_states tells the state of each endpoint', () => {
  let server: TestServer;
  let client: Client;
  before(async () => void (server = await startServer(embeddedBin)));
  after(() => server.close());

  /** A table of its own whose answers are those of `texts`, each counted by a process of its own and written in this order, one a ms. */
  async function tableWith(
    name: string,
    ...texts: readonly { readonly answers: string; readonly atMs: number }[]
  ) {
    const { oid } = await makeTable(client, name);
    for (const { answers, atMs } of texts) await write(oid, answers, atMs);
    return oid;
  }

  async function write(oid: number, answers: string, atMs: number): Promise<void> {
    const counts = new TrafficCounts(limits);
    for (const [i, letter] of answers.split('').entries())
      counts.add(oid, answered(letter as Letter), atMs + i);
    await client.query(addTraffic, [...(counts.take(0, true) ?? [])]);
    for (const [i, letter] of answers.split('').entries()) {
      const [authenticated, cause] = kept[letter] ?? [];
      if (authenticated === undefined) continue;
      await client.query(
        `INSERT INTO headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason, authenticated,
           remote_address, method, target, headers, headers_left_out, cause)
         VALUES (to_timestamp($1::float8 / 1000), $2::oid::regclass, 'public', '', 'http', 400, $3, '', $4, '', 'POST', '', '{}', '{}', $5)`,
        [atMs + i, oid, codes[letter as Letter], authenticated, cause],
      );
    }
  }

  test('the state of an endpoint follows from its last answers', async (t) => {
    client = await connect(t, server);
    const now = Date.now() - 1_000;
    const cases: readonly (readonly [answers: string, state: string])[] = [
      ['s'.repeat(30) + 'u'.repeat(15), 'nothing stored'],
      ['d' + 'r'.repeat(3), 'nothing stored'],
      ['uar', 'nothing stored'],
      ['aaa', 'nothing stored'],
      ['uu', 'some refused'],
      ['u', 'some refused'],
      ['suu', 'some refused'],
      ['uuus', 'signatures fail'],
      ['uuud', 'signatures fail'],
      ['uuusss', 'some refused'],
      ['rsss', 'some refused'],
      ['rrss', 'some refused'],
      ['rrrs', 'many refused'],
      [`rrr${'s'.repeat(26)}`, 'many refused'],
      [`rrr${'s'.repeat(27)}`, 'some refused'],
      ['aaaas', 'some refused'],
      ['s', 'stored'],
      ['d', 'stored'],
      // What a stranger can cause is counted, and needs nobody.
      ['nnn', 'some refused'],
      ['snnnn', 'some refused'],
      ['nnnns', 'some refused'],
      ['nll', 'some refused'],
      ['unl', 'some refused'],
      ['llls', 'some refused'],
      ['ann', 'some refused'],
      ['aann', 'some refused'],
      ['aaann', 'nothing stored'],
      ['nnnnuuu', 'nothing stored'],
      ['nnnnnrrr', 'nothing stored'],
      ['rrsrnn', 'many refused'],
      ['nnnnuuus', 'signatures fail'],
    ];
    for (const [i, [answers, state]] of cases.entries()) {
      await tableWith(`c${i}`, { answers, atMs: now });
      assert.equal((await stateOf(client, `c${i}`))?.state, state, answers);
    }
    await makeTable(client, 'none');
    assert.equal((await stateOf(client, 'none'))?.state, 'quiet');
  });

  test('the state of an endpoint stays for a day after its last request, then is quiet', async (t) => {
    client = await connect(t, server);
    const hour = 3_600_000;
    await tableWith('hours', { answers: 'suuu', atMs: Date.now() - 23 * hour });
    assert.equal((await stateOf(client, 'hours'))?.state, 'nothing stored');
    const day = await tableWith('day', { answers: 'suuu', atMs: Date.now() - 25 * hour });
    assert.equal((await stateOf(client, 'day'))?.state, 'quiet');
    // One more, and the four of them are the newest.
    await write(day, 'u', Date.now());
    assert.equal((await stateOf(client, 'day'))?.state, 'nothing stored');
    await write(day, 's', Date.now());
    assert.equal((await stateOf(client, 'day'))?.state, 'some refused');
  });

  test('a request stored by one process ends the refusals counted by another, in either order of their writes', async (t) => {
    client = await connect(t, server);
    const now = Date.now() - 5_000;
    const [refused, stored] = [
      { answers: 'uuuu', atMs: now },
      { answers: 's', atMs: now + 100 },
    ];
    for (const [name, order] of [
      ['first', [refused, stored]],
      ['second', [stored, refused]],
    ] as const) {
      await tableWith(name, ...order);
      assert.deepEqual(
        [(await stateOf(client, name))?.counts, (await stateOf(client, name))?.since],
        [[0, 0, 0], null],
        name,
      );
    }
    const later = { answers: 'urau', atMs: now + 200 };
    for (const [name, order] of [
      ['third', [stored, refused, later]],
      ['fourth', [later, stored, refused]],
    ] as const) {
      await tableWith(name, ...order);
      const known = await stateOf(client, name);
      assert.deepEqual([known?.counts, known?.since?.getTime()], [[2, 1, 1], later.atMs], name);
    }
  });

  test("the counts of an endpoint's state are those after its last stored request, whenever they are written", async (t) => {
    client = await connect(t, server);
    let n = 0;
    const letters = fc.array(fc.constantFrom<Letter>('s', 'd', 'u', 'r', 'a'), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(letters, { minLength: 1, maxLength: 5 }), async (parts) => {
        const name = `p${n++}`;
        const atMs = Date.now() - 60_000;
        let ms = atMs;
        const texts = parts.map((part) => ({
          answers: part.join(''),
          atMs: (ms += part.length) - part.length,
        }));
        await tableWith(name, ...texts.filter(({ answers }) => answers !== ''));
        const all = parts.flat();
        const last = Math.max(all.lastIndexOf('s'), all.lastIndexOf('d'));
        const rest = all.slice(last + 1);
        const known = await stateOf(client, name);
        assert.deepEqual(
          known?.counts,
          ['u', 'r', 'a'].map((it) => rest.filter((one) => one === it).length),
        );
        assert.deepEqual(known?.since?.getTime() ?? null, rest.length === 0 ? null : atMs + last + 1);
      }),
      { numRuns: 40 },
    );
  });

  test("the missing hours of a sender's log are those within the last 7 days, counted once for all sources", async (t) => {
    client = await connect(t, server);
    const { oid } = await makeTable(client, 'logged');
    await client.query(
      `INSERT INTO headgate.reconciling (relation, log, mark, since, read_to) VALUES ($1::oid::regclass, 'github', 0, now() - interval '8 days', now());`,
      [oid],
    );
    await client.query(
      `INSERT INTO headgate.past_window (relation, window_from, window_to, came, fetched)
       SELECT $1::oid::regclass, now() - interval '20 days', now() - interval '19 days', 1, 0`,
      [oid],
    );
    await client.query(
      `INSERT INTO headgate.announced (relation, delivery, id, log_id, announced_at, next_at)
       SELECT $1::oid::regclass, gen_random_uuid(), i::text, i::text, a.at, now()
       FROM unnest(ARRAY[date_bin('1 hour', now() - interval '7 days', 'epoch') + interval '1 second', date_bin('1 hour', now() - interval '7 days', 'epoch') - interval '1 second',
         now() - interval '2 hours']) WITH ORDINALITY AS a (at, i)`,
      [oid],
    );
    const { rows } = await client.query(
      `select missing::int, log_problem from headgate.endpoint_states where table_name = 'logged'`,
    );
    assert.deepEqual(rows, [{ missing: 2, log_problem: null }]);
  });
});
