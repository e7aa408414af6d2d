import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdsTable } from '../../test/support/state-table.ts';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import { limits as allLimits } from '../config/limits.ts';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import type { Chain, Outcome } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import { Pace } from './lane-rate.ts';
import { Lane } from './lane.ts';
import type { LanesContext } from './lane.ts';

/** A lane of two requests, whose turns, clock and engine are moved by hand, with those that were given to it. */
class Bench {
  readonly lane: Lane;
  readonly #target = targetOf({ oid: 1 });
  readonly #said: string[] = [];
  readonly #turns: (() => void)[] = [];
  readonly #groups: Deferred<Outcome>[] = [];
  #nowMs = 0;

  constructor() {
    const limits = {
      ...allLimits,
      laneRowsMax: 2,
      laneBytesMax: 1_000,
      groupBytesMax: 400,
      groupRowsMax: 4,
      groupTargetMs: 1_000,
    };
    const options: LanesContext = {
      commit: {
        commit: async ({ members }) => {
          const done = deferred<Outcome>();
          this.#groups.push(done);
          const outcome = await done.promise;
          return members.map(() => outcome);
        },
      },
      limits,
      clock: () => this.#nowMs,
      endOfTurn: (run) => void this.#turns.push(run),
      onIdle: () => void this.#said.push('forgotten'),
    };
    this.lane = new Lane(options, new Pace(limits));
  }

  submit(name: string, chain: Chain | null = null): this {
    const rows = { ...rowsOf(this.#target, Buffer.from('{}')), ackTimeoutMs: 100, chain };
    void this.lane.submit(rows).then((outcome) => {
      const code = outcome.kind === 'committed' ? '' : ` ${outcome.refusal.code}`;
      this.#said.push(`${name} ${outcome.kind}${code}`);
    });
    return this;
  }

  endTurn(): this {
    for (const run of this.#turns.splice(0)) run();
    return this;
  }

  finish(outcome: Outcome): void {
    this.#groups.shift()?.resolve(outcome);
  }

  pass(ms: number): void {
    this.#nowMs += ms;
    this.lane.expire(this.#nowMs);
  }

  /** What was said since, and the state. */
  async after(happens: () => unknown): Promise<string> {
    await new Promise(setImmediate);
    this.#said.length = 0;
    happens();
    await new Promise(setImmediate);
    return [...this.#said, this.lane.state].join(', ');
  }
}

const committed: Outcome = { kind: 'committed', rows: 1 };
const refused: Outcome = { kind: 'aborted', refusal: refusal('row_refused') };

test("a lane's state table holds in every state at every event", async () => {
  const gathering = () => new Bench().submit('first');
  const committing = () => gathering().endTurn();
  const starts = [new Bench(), gathering(), committing()].map(({ lane }) => lane.state);
  assert.deepEqual(starts, ['idle', 'gathering', 'committing']);
  await holdsTable(
    {
      idle: {
        'a request comes': 'gathering',
        'a request of a broken chain comes': 'new aborted chain_broken, idle',
        'the turn ends': 'idle',
        'the group is committed': 'idle',
        'the group is refused': 'idle',
        'a moment passes': 'idle',
        'the deadline passes': 'idle',
        'Headgate stops': 'idle',
      },
      gathering: {
        'a request comes': 'gathering',
        'a request of a broken chain comes': 'new aborted chain_broken, gathering',
        'the turn ends': 'committing',
        'the group is committed': 'gathering',
        'the group is refused': 'gathering',
        'a moment passes': 'gathering',
        'the deadline passes': 'first aborted deadline, gathering',
        'Headgate stops': 'first aborted draining, gathering',
      },
      'gathering, nothing is left': {
        'a request comes': 'gathering',
        'a request of a broken chain comes': 'new aborted chain_broken, gathering',
        'the turn ends': 'forgotten, idle',
        'the group is committed': 'gathering',
        'the group is refused': 'gathering',
        'a moment passes': 'gathering',
        'the deadline passes': 'gathering',
        'Headgate stops': 'gathering',
      },
      committing: {
        'a request comes': 'committing',
        'a request of a broken chain comes': 'new aborted chain_broken, committing',
        'the turn ends': 'committing',
        'the group is committed': 'forgotten, first committed, idle',
        'the group is refused': 'forgotten, first aborted row_refused, idle',
        'a moment passes': 'committing',
        'the deadline passes': 'first unknown deadline, committing',
        'Headgate stops': 'committing',
      },
      'committing, the queue is full': {
        'a request comes': 'new aborted lane_full, committing',
        'a request of a broken chain comes': 'new aborted lane_full, committing',
        'the turn ends': 'committing',
        'the group is committed': 'first committed, committing',
        'the group is refused': 'first aborted row_refused, committing',
        'a moment passes': 'committing',
        'the deadline passes':
          'first unknown deadline, second aborted deadline, third aborted deadline, committing',
        'Headgate stops': 'second aborted draining, third aborted draining, committing',
      },
      'committing two, one waits': {
        'a request comes': 'committing',
        'a request of a broken chain comes': 'new aborted chain_broken, committing',
        'the turn ends': 'committing',
        'the group is committed': 'first committed, second committed, gathering',
        'the group is refused': 'first aborted row_refused, second aborted row_refused, gathering',
        'a moment passes': 'committing',
        'the deadline passes':
          'first unknown deadline, second unknown deadline, third aborted deadline, committing',
        'Headgate stops': 'third aborted draining, committing',
      },
      'committing, too late': {
        'a request comes': 'committing',
        'a request of a broken chain comes': 'new aborted chain_broken, committing',
        'the turn ends': 'committing',
        'the group is committed': 'forgotten, idle',
        'the group is refused': 'forgotten, idle',
        'a moment passes': 'committing',
        'the deadline passes': 'committing',
        'Headgate stops': 'committing',
      },
    },
    {
      idle: () => new Bench(),
      gathering,
      'gathering, nothing is left': () => {
        const bench = gathering();
        bench.lane.abort('draining');
        return bench;
      },
      committing,
      'committing, the queue is full': () => committing().submit('second').submit('third'),
      'committing two, one waits': () => gathering().submit('second').endTurn().submit('third'),
      'committing, too late': () => {
        const bench = committing();
        bench.pass(100);
        return bench;
      },
    },
    {
      'a request comes': (it) => it.after(() => it.submit('new')),
      'a request of a broken chain comes': (it) => it.after(() => it.submit('new', { broken: true })),
      'the turn ends': (it) => it.after(() => it.endTurn()),
      'the group is committed': (it) => it.after(() => it.finish(committed)),
      'the group is refused': (it) => it.after(() => it.finish(refused)),
      'a moment passes': (it) => it.after(() => it.pass(99)),
      'the deadline passes': (it) => it.after(() => it.pass(100)),
      'Headgate stops': (it) => it.after(() => it.lane.abort('draining')),
    },
  );
});
