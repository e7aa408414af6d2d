import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import type { Chain, Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import { failedHere } from './interpret-reply.ts';
import type { StoreAttempt, Failed } from './engine-reply.ts';
import { settle } from './commit.ts';

const target = targetOf({ shape: { writeMode: 'insert' } });
const refused: Outcome = { kind: 'aborted', refusal: refusal('row_refused') };
/** As the engine says it. */
const failedWith = (sqlstate: string): Failed => ({ ...failedHere(sqlstate, ''), routine: null });

interface Kind {
  readonly bad: boolean;
  /** Needs the row of the member this far before it. */
  readonly needs: number;
  readonly chain: number;
  /** Bad in any order, and found to be so. */
  readonly sifted?: boolean;
}

/** An engine that refuses bad members, and those whose predecessor is not stored. */
function engineOf(members: readonly Rows[], kinds: readonly Kind[], conflicts: number) {
  const sifts = new Set(members.filter((_, i) => kinds[i]?.sifted === true));
  const stored: Rows[] = [];
  const seen = { attempts: 0, pending: conflicts };
  const fits = (member: Rows, before: readonly Rows[]) => {
    const i = members.indexOf(member);
    const kind = kinds[i];
    const needed = kind === undefined || kind.needs === 0 ? undefined : members[i - kind.needs];
    return kind?.bad !== true && (needed === undefined || before.includes(needed));
  };
  const take = (unit: readonly Rows[]): StoreAttempt => {
    seen.attempts++;
    if (seen.pending > 0) {
      seen.pending--;
      return failedWith('40P01');
    }
    const before = [...stored];
    for (const member of unit) {
      if (!fits(member, before)) return failedWith('23503');
      before.push(member);
    }
    stored.push(...unit);
    return { kind: 'committed' };
  };
  return {
    stored,
    seen,
    deps: {
      siftsMax: 1,
      fruitlessMax: Infinity,
      refuse: () => null,
      store: (unit: readonly Rows[]) => Promise.resolve(take(unit)),
      storeEach: (units: readonly (readonly Rows[])[]) => {
        const chains = units.map((unit) => new Set(unit.flatMap(({ chain }) => chain ?? [])));
        for (const [i, some] of chains.entries())
          for (const chain of some)
            assert(!chains.slice(i + 1).some((other) => other.has(chain)), 'a chain is in one unit');
        return Promise.resolve(units.map(take));
      },
      stands: () => Promise.resolve(null),
      explain: () => Promise.resolve(refused),
      sift: (some: readonly Rows[]) =>
        Promise.resolve(some.map((rows) => (sifts.has(rows) ? refused : rows))),
    },
  };
}

test('the search for the row at fault stores exactly what single commits would, in a bounded number of attempts', async () => {
  const kind = fc.record({
    bad: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.boolean()),
    needs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 30 })),
    chain: fc.integer({ min: -3, max: 1 }),
    sifted: fc.boolean(),
  });
  const kindOf = kind.map((it) => ({ ...it, sifted: it.sifted && it.bad }));
  await fc.assert(
    fc.asyncProperty(
      fc.array(kindOf, { minLength: 1, maxLength: 300 }),
      fc.integer({ min: 0, max: 2 }),
      async (kinds, conflicts) => {
        const chains: Chain[] = [{ broken: false }, { broken: false }];
        const members = kinds.map(({ chain }): Rows => ({
          ...rowsOf(target, '1'),
          chain: chains[chain] ?? null,
        }));
        const engine = engineOf(members, kinds, conflicts);
        const outcomes = await settle(engine.deps, members);

        const expected = new Set<Rows>();
        const broken = new Set<Chain>();
        members.forEach((member, i) => {
          const { bad, needs } = kinds[i] ?? assert.fail();
          const needed = needs === 0 ? undefined : members[i - needs];
          const stays = !bad && (needed === undefined || expected.has(needed));
          if (member.chain !== null && broken.has(member.chain)) return;
          if (stays) expected.add(member);
          else if (member.chain !== null) broken.add(member.chain);
        });
        assert.deepEqual(
          outcomes.map((o) => o.kind === 'committed'),
          members.map((member) => expected.has(member)),
        );
        assert.deepEqual(new Set(engine.stored), expected);
        assert.equal(engine.stored.length, expected.size);
        for (const chain of chains) {
          const order = engine.stored
            .filter((member) => member.chain === chain)
            .map((member) => members.indexOf(member));
          assert.deepEqual(
            order,
            order.toSorted((a, b) => a - b),
            'a chain is stored in order',
          );
          assert.equal(chain.broken, broken.has(chain));
        }
        assert(
          engine.seen.attempts <= 4 + 4 * members.length,
          `${engine.seen.attempts} for ${members.length}`,
        );
      },
    ),
  );
});

/** An engine that stores each unit in a transaction of its own and may name the member that it refuses, as COPY does. */
function copying(bad: ReadonlySet<Rows>, names: boolean, sqlstate = '23514') {
  const stored: Rows[] = [];
  const seen = { attempts: 0 };
  const store = (members: readonly Rows[]): Promise<StoreAttempt> => {
    seen.attempts++;
    if (members.some((member) => bad.has(member))) return Promise.resolve(failedWith(sqlstate));
    stored.push(...members);
    return Promise.resolve({ kind: 'committed' });
  };
  const deps = {
    siftsMax: 3,
    fruitlessMax: 48,
    refuse: () => null,
    store,
    storeEach: async (units: readonly (readonly Rows[])[]) => {
      const attempts: StoreAttempt[] = [];
      for (const unit of units) attempts.push(await store(unit));
      return attempts;
    },
    stands: () => Promise.resolve(null),
    explain: () => Promise.resolve(refused),
    sift: (members: readonly Rows[]) => {
      const named = names ? members.findIndex((member) => bad.has(member)) : -1;
      return Promise.resolve(members.map((rows, place) => (place === named ? refused : rows)));
    },
  };
  return { stored, seen, deps };
}

test('the search in a group stored by COPY refuses exactly the requests with a bad row, in a bounded number of attempts', async () => {
  const kind = fc.record({ bad: fc.boolean(), chain: fc.integer({ min: -4, max: 1 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(kind, { minLength: 1, maxLength: 40 }), fc.boolean(), async (kinds, names) => {
      const chains: Chain[] = [{ broken: false }, { broken: false }];
      const members = kinds.map(({ chain }): Rows => ({
        ...rowsOf(target, '1'),
        chain: chains[chain] ?? null,
      }));
      const bad = new Set(members.filter((_, i) => kinds[i]?.bad === true));
      const { deps, stored, seen } = copying(bad, names);
      const outcomes = await settle(deps, members);
      const broken = new Set<Chain>();
      const expected = members.map((member) => {
        if (member.chain !== null && broken.has(member.chain)) return 'chain_broken';
        if (bad.has(member) && member.chain !== null) broken.add(member.chain);
        return bad.has(member) ? 'row_refused' : 'committed';
      });
      assert.deepEqual(
        outcomes.map((o) => (o.kind === 'committed' ? o.kind : o.refusal.code)),
        expected,
      );
      assert.deepEqual(new Set(stored), new Set(members.filter((_, i) => expected[i] === 'committed')));
      assert.equal(stored.length, new Set(stored).size);
      for (const chain of chains) assert.equal(chain.broken, broken.has(chain));
      assert(seen.attempts <= 4 + 2 * members.length, `${seen.attempts} for ${members.length}`);
    }),
  );
});

test('a group whose COPY error names the row is stored with one more attempt', async () => {
  const members = Array.from({ length: 100 }, () => rowsOf(target, '1'));
  const { deps, seen } = copying(new Set(members.slice(57, 58)), true);
  const outcomes = await settle(deps, members);
  assert.equal(seen.attempts, 2);
  assert.deepEqual(
    outcomes.map(({ kind }) => kind),
    members.map((_, i) => (i === 57 ? 'aborted' : 'committed')),
  );
});

test('the search for the row at fault gives engine errors 503, and ends soon if nothing can be stored', async () => {
  const away: Outcome = { kind: 'aborted', refusal: refusal('engine_unavailable') };
  const members = Array.from({ length: 2_048 }, () => rowsOf(target, '1'));
  // Something that only some rows need cannot be reached.
  const some = copying(new Set(members.slice(0, 10)), true, '08006');
  assert.deepEqual(
    (await settle(some.deps, members)).map((o) => o.kind),
    members.map((_, i) => (i < 10 ? 'aborted' : 'committed')),
  );
  const all = copying(new Set(members), true, '08006');
  assert.deepEqual(
    await settle(all.deps, members),
    members.map(() => away),
  );
  assert(all.seen.attempts <= 48 + 60, String(all.seen.attempts));
});

test('the search for the row at fault finds one bad request among two thousand in 41 attempts', async () => {
  const kinds = Array.from({ length: 2_000 }, (_, i) => ({ bad: i === 777, needs: 0, chain: -1 }));
  const members = kinds.map(() => rowsOf(target, '1'));
  const engine = engineOf(members, kinds, 0);
  const outcomes = await settle(engine.deps, members);
  assert.equal(outcomes.filter((o) => o.kind === 'committed').length, 1_999);
  assert.equal(engine.seen.attempts, 1 + 16 + 16 + 8);
});

test('a connection lost during the search for the row at fault makes only the sent requests unknown', async () => {
  const members = Array.from({ length: 4 }, () => rowsOf(target, '1'));
  const answers: StoreAttempt[][] = [
    [{ kind: 'committed' }, failedWith('23514'), { kind: 'lost', reason: '' }, { kind: 'lost', reason: '' }],
  ];
  const outcomes = await settle(
    {
      ...engineOf(members, [], 0).deps,
      store: () => Promise.resolve(failedWith('23514')),
      storeEach: () => Promise.resolve(answers.shift() ?? []),
    },
    members,
  );
  assert.deepEqual(
    outcomes.map((o) => o.kind),
    ['committed', 'aborted', 'unknown', 'unknown'],
  );
});

test('the search for the row at fault refuses suspected requests only after each has failed alone twice', async () => {
  const members = Array.from({ length: 2_048 }, () => rowsOf(target, '1'));
  const seen = { transactions: 0 };
  const fail = () => failedWith('XX000');
  const deps = {
    ...engineOf(members, [], 0).deps,
    store: () => Promise.resolve((seen.transactions++, fail())),
    storeEach: (units: readonly unknown[]) => Promise.resolve((seen.transactions++, units.map(fail))),
  };
  const outcomes = await settle(deps, members);
  assert.deepEqual(
    outcomes,
    members.map(() => refused),
  );
  assert.equal(seen.transactions, 1 + 1 + 5 + 2 * 35);
  const changed: Outcome = { kind: 'aborted', refusal: refusal('table_changed') };
  assert.deepEqual(await settle({ ...deps, stands: () => Promise.resolve(changed) }, members.slice(0, 2)), [
    changed,
    changed,
  ]);
});
