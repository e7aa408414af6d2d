import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  done,
  inTransaction,
  m,
  q,
  ready,
  rewrite,
  type Script,
  started,
  transcripts,
} from '../../test/support/wire-transcripts.ts';
import { limits } from '../config/limits.ts';
import { ProtocolViolation } from './framing.ts';
import { SqlPortSession } from './session.ts';

/** Runs a script, cutting every turn into chunks of the given sizes; gives what reached the other sides. */
async function run(script: Script, sizes: readonly number[], options: { start?: boolean } = {}) {
  let [toEngine, toClient] = ['', ''];
  const failures: unknown[] = [];
  const session = new SqlPortSession({
    database: 'dev',
    user: 'root',
    rewrite,
    limits,
    toEngine: (bytes) => (toEngine += bytes.toString('latin1')),
    toClient: (bytes) => (toClient += bytes.toString('latin1')),
    rewritten: () => {},
    failed: (failure) => failures.push(failure),
  });
  if (options.start !== false) {
    session.fromEngine(Buffer.from(started, 'latin1'));
    toClient = '';
  }
  let turn = 0;
  for (const [side, text] of script) {
    const bytes = Buffer.from(text, 'latin1');
    for (let at = 0; at < bytes.length; turn += 1) {
      const chunk = bytes.subarray(at, at + sizes[turn % sizes.length]!);
      at += chunk.length;
      if (side === '<') session.fromEngine(chunk);
      else await session.fromClient(chunk);
    }
  }
  assert.deepEqual(failures, []);
  return { toEngine, toClient, session };
}

for (const [name, { script, toEngine, toClient }] of Object.entries(transcripts)) {
  test(`the SQL port relays the same bytes at any cut: ${name}`, async () => {
    const longest = Math.max(...script.map(([, text]) => text.length));
    for (let size = 1; size <= longest; size += 1) {
      const result = await run(script, [size]);
      assert.equal(result.toEngine, toEngine, `to the engine, chunks of ${size}`);
      assert.equal(result.toClient, toClient, `to the client, chunks of ${size}`);
      assert.equal(result.session.outstanding, 0);
    }
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), async (sizes) => {
        const result = await run(script, sizes);
        assert.equal(result.toEngine, toEngine);
        assert.equal(result.toClient, toClient);
      }),
      { numRuns: 50 },
    );
  });
}

test('the SQL port bounds messages before authentication, and holds back statements pipelined behind it', async () => {
  const { session } = await run([], [1], { start: false });
  const held = session.fromClient(Buffer.from(m('p', 'secret') + q('FOO x'), 'latin1'));
  assert.notEqual(held, null);
  session.fromEngine(Buffer.from(started, 'latin1'));
  await held;
  assert.equal(session.outstanding, 1);
  const other = await run([], [1], { start: false });
  const header = Buffer.from('p\0\0\0\0');
  header.writeInt32BE(limits.sqlAuthMessageBytesMax + 5, 1);
  assert.throws(() => other.session.fromClient(header), ProtocolViolation);
});

test('a SQL port session is idle only between statements and outside transactions', async () => {
  const { session } = await run([], [9]);
  assert.ok(session.idle);
  void session.fromClient(Buffer.from(q('begin'), 'latin1'));
  assert.equal(session.idle, false);
  session.fromEngine(Buffer.from(done('BEGIN') + inTransaction, 'latin1'));
  assert.equal(session.idle, false);
  void session.fromClient(Buffer.from(q('end').slice(0, 3), 'latin1'));
  session.fromEngine(Buffer.from(ready, 'latin1'));
  assert.equal(session.idle, false);
});
