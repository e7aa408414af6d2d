import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { suite, test } from 'node:test';
import type { PoolClient } from 'pg';
import { Spy } from '../../test/support/postgres.ts';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import { limits } from '../config/limits.ts';
import type { Group } from '../types/rows.ts';
import type { Into, Target } from '../types/target.ts';
import { Commit } from './commit.ts';
import { connectionOf } from './commit-connection.ts';
import type { CommitContext } from './session.ts';

/** A database with one connection, to which nothing can be written because of a bug. */
function room() {
  const log: string[] = [];
  const spy = new Spy();
  const client = {
    release: (isClosed = false) => log.push(isClosed ? 'closed' : 'released'),
    on: () => {
      throw new Error('a bug');
    },
  } as unknown as PoolClient;
  connectionOf(client).facts = { role: 'root', path: 'public', commit: 'on', apart: false };
  const connect = async () => {
    log.push('lent');
    await turn();
    return client;
  };
  const pools: Partial<CommitContext['pools']> = {
    connectFor: connect,
    connectForMany: connect,
    giveBack: () => void log.push('given back'),
    isShared: () => false,
    hasPooler: () => false,
    sizeOf: () => 1,
  };
  const context: CommitContext = {
    pools: pools as CommitContext['pools'],
    clock: () => 0,
    observe: spy.observe,
    limits: { ...limits, sharedTransactionsMax: 1 },
  };
  return { context, commit: new Commit(context), log, spy };
}

const plain = { ...targetOf().code, functionsIn: 'headgate' } as const;

function groupOf(target: Target): Group {
  const member = rowsOf(target, '{}');
  return { target, members: [member], rows: member.count, bytes: member.bytes };
}

suite('work on a group that throws', () => {
  for (const [kind, target] of [
    ['may share its transaction', targetOf({ code: plain })],
    ['goes alone', targetOf({ waitsForDisk: false })],
    ['has code of its owner', targetOf({ code: { ...plain, as: 'owner' } })],
  ] as const)
    test(`a group that ${kind} and on which work throws loses its connection once, and the next one has its turn`, async () => {
      const { commit, log, spy } = room();
      const failed = async (of: Target) => {
        const [outcome] = await commit.commit(groupOf(of));
        assert(outcome?.kind === 'unknown' && outcome.refusal.code === 'internal');
        const [said, ...more] = spy.seen.splice(0);
        assert(said?.kind === 'group.unknown' && said.reason.includes('a bug'));
        assert.deepEqual(more, []);
      };
      const first = failed(target);
      await Promise.resolve();
      const second = failed({ ...target, oid: 2 });
      await Promise.all([first, second]);
      assert.deepEqual(log, ['lent', 'closed', 'lent', 'closed']);
    });

  test('a group whose rows go to another server, and on which work throws, has an outcome', async () => {
    const { context, spy } = room();
    const into: Into = {
      key: 'k',
      host: 'elsewhere',
      port: 4566,
      user: 'root',
      password: '',
      database: 'dev',
      tls: 'none',
      passwordRequired: false,
    };
    const elsewhere = { commit: () => Promise.reject(new Error('a bug')) };
    const [outcome] = await new Commit(context, elsewhere).commit(groupOf(targetOf({ into })));
    assert(outcome?.kind === 'unknown' && outcome.refusal.code === 'internal');
    assert.deepEqual(
      spy.seen.map(({ kind }) => kind),
      ['group.unknown'],
    );
  });
});
