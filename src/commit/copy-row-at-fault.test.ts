import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rowsOf as membersRows, targetOf } from '../../test/support/rows.ts';
import type { Chain, Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import type { StoreAttempt } from './interpret-reply.ts';
import { commitIsolating } from './copy-row-at-fault.ts';

const target = targetOf();
const rowsOf = (count: number): Rows => membersRows(target, ...Array.from({ length: count }, () => '1'));
const rowRefused: Outcome = { kind: 'aborted', refusal: refusal('row_refused') };
const failed = (line: number | null): StoreAttempt => ({
  kind: 'failed',
  sqlstate: '22P02',
  message: '',
  completed: 0,
  atCommit: false,
  xid: null,
  constraint: null,
  column: null,
  placed: false,
  where: line === null ? '' : String(line),
  routine: null,
});
const lineOf = ({ where }: { where: string }) => (where === '' ? null : Number(where));

/** An engine in which some members hold a row that it refuses, naming the row or not. */
function engineOf(bad: ReadonlySet<Rows>, names: boolean) {
  const stored: Rows[] = [];
  const seen = { attempts: 0 };
  return {
    stored,
    seen,
    attempt: (members: readonly Rows[]): Promise<StoreAttempt> => {
      seen.attempts++;
      let line = 0;
      for (const member of members) {
        if (bad.has(member)) return Promise.resolve(failed(names ? line + member.count : null));
        line += member.count;
      }
      stored.push(...members);
      return Promise.resolve({ kind: 'committed' });
    },
    lineOf,
    judge: () => Promise.resolve({ blame: 'row' as const, outcome: rowRefused }),
    stands: () => Promise.resolve(null),
    fruitlessMax: 48,
  };
}

test('exactly the members with a refused row are refused, all others are stored once, in a bounded number of attempts', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          rows: fc.integer({ min: 1, max: 3 }),
          bad: fc.boolean(),
          chain: fc.integer({ min: -4, max: 1 }),
        }),
        { minLength: 1, maxLength: 40 },
      ),
      fc.boolean(),
      async (kinds, names) => {
        const chains: Chain[] = [{ broken: false }, { broken: false }];
        const members = kinds.map((kind): Rows => ({
          ...rowsOf(kind.rows),
          chain: chains[kind.chain] ?? null,
        }));
        const bad = new Set(members.filter((_, i) => kinds[i]?.bad === true));
        const engine = engineOf(bad, names);
        const outcomes = await commitIsolating({ ...engine, namedRefusalsMax: 3 }, members);
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
        assert.deepEqual(
          engine.stored,
          members.filter((_, i) => expected[i] === 'committed'),
        );
        for (const chain of chains) assert.equal(chain.broken, broken.has(chain));
        assert(engine.seen.attempts <= 3 + 2 * members.length);
      },
    ),
  );
});

test('a group whose COPY error names the row is stored with one more attempt', async () => {
  const members = Array.from({ length: 100 }, () => rowsOf(1));
  const engine = engineOf(new Set(members.slice(57, 58)), true);
  const outcomes = await commitIsolating({ ...engine, namedRefusalsMax: 3 }, members);
  assert.equal(engine.seen.attempts, 2);
  assert.equal(outcomes.filter((o) => o.kind === 'committed').length, 99);
  assert.equal(outcomes[57]?.kind, 'aborted');
});

test('a fault of nobody is one outcome for all; a lost connection is unknown for what was sent, and only for that', async () => {
  const members = [rowsOf(1), rowsOf(1), rowsOf(1), rowsOf(1)];
  const away: Outcome = { kind: 'aborted', refusal: refusal('engine_unavailable') };
  const group = {
    attempt: () => Promise.resolve(failed(null)),
    lineOf,
    judge: () => Promise.resolve({ blame: 'group' as const, outcome: away }),
    stands: () => Promise.resolve(null),
    fruitlessMax: 48,
    namedRefusalsMax: 3,
  };
  assert.deepEqual(
    await commitIsolating(group, members),
    members.map(() => away),
  );

  const answers: StoreAttempt[] = [failed(null), { kind: 'committed' }, { kind: 'lost', reason: 'reset' }];
  const halves = {
    attempt: () => Promise.resolve(answers.shift() ?? failed(null)),
    lineOf,
    judge: () => Promise.resolve({ blame: 'row' as const, outcome: rowRefused }),
    stands: () => Promise.resolve(null),
    fruitlessMax: 48,
    namedRefusalsMax: 3,
  };
  assert.deepEqual(
    (await commitIsolating(halves, members)).map((o) => o.kind),
    ['committed', 'committed', 'unknown', 'unknown'],
  );
});

test("an error that is no row's fault gives its own rows 503, and the search ends soon if nothing can be stored", async () => {
  const away: Outcome = { kind: 'aborted', refusal: refusal('engine_unavailable') };
  const members = Array.from({ length: 2_048 }, () => rowsOf(1));
  const judge = () => Promise.resolve({ blame: 'elsewhere' as const, outcome: away });
  const some = engineOf(new Set(members.slice(0, 10)), true);
  const outcomes = await commitIsolating({ ...some, judge, namedRefusalsMax: 3 }, members);
  assert.deepEqual(
    outcomes.map((o) => o.kind),
    members.map((_, i) => (i < 10 ? 'aborted' : 'committed')),
  );
  const all = engineOf(new Set(members), true);
  assert.deepEqual(
    await commitIsolating({ ...all, judge, namedRefusalsMax: 3 }, members),
    members.map(() => away),
  );
  assert.equal(all.seen.attempts, 48);
});

test('a suspected row is not refused because the engine names it, nor for a table that is another one by then', async () => {
  const changed: Outcome = { kind: 'aborted', refusal: refusal('table_changed') };
  const members = Array.from({ length: 64 }, () => rowsOf(1));
  for (const instead of [null, changed]) {
    const engine = engineOf(new Set(members.slice(5, 6)), true);
    const deps = {
      ...engine,
      judge: () => Promise.resolve({ blame: 'suspect' as const, outcome: rowRefused }),
      stands: () => Promise.resolve(instead),
      namedRefusalsMax: 3,
    };
    const outcomes = await commitIsolating(deps, members);
    assert.deepEqual(outcomes[5], instead ?? rowRefused);
    assert.equal(outcomes.filter(({ kind }) => kind === 'committed').length, 63);
    assert.equal(engine.seen.attempts, 13);
  }
});
