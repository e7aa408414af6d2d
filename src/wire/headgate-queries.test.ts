import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, inTransaction, m, q, ready, started } from '../../test/support/wire-transcripts.ts';
import { limits } from '../config/limits.ts';
import { SqlFailure } from '../errors/refusals.ts';
import type { RewriteSql } from '../ddl/rewrite.ts';
import type { OwnRow, SessionQueries } from '../types/sql.ts';
import { SqlPortSession } from './session.ts';

const key = '\0\0\x10\x92\x01\x02\x03\x04';
const cancelRequest = Buffer.from(`\0\0\0\x10\x04\xd2\x16\x2e${key}`, 'latin1');

const row = (...values: readonly (string | null)[]): string => {
  const count = Buffer.alloc(2);
  count.writeInt16BE(values.length);
  const parts = values.map((value) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(value === null ? -1 : value.length);
    return length.toString('latin1') + (value ?? '');
  });
  return m('D', count.toString('latin1') + parts.join(''));
};
const failed = (code: string, message: string, severity = 'ERROR') =>
  m('E', `S${severity}\0V${severity}\0C${code}\0M${message}\0P7\0\0`);

/** A session in which `EXPLAIN` asks A and then B, and becomes SELECT with what they return; `chunk`: the bytes that the engine sends at a time. */
function session(chunk: number, work: (queries: SessionQueries) => Promise<string>) {
  const sides = { toEngine: '', toClient: '' };
  let flushed = 0;
  const rewrite: RewriteSql = (sql, { queries }) =>
    sql === 'EXPLAIN'
      ? {
          kind: 'deferred',
          prepare: async () => {
            assert(queries !== undefined);
            const text = await work(queries());
            return { kind: 'rewritten', sql: text, tags: ['EXPLAIN'], originalOffset: () => 0, before: null };
          },
        }
      : null;
  const made = new SqlPortSession({
    database: 'dev',
    user: 'root',
    rewrite,
    limits,
    toEngine: (bytes) => (sides.toEngine += bytes.toString('latin1')),
    flush: () => flushed++,
    toClient: (bytes) => (sides.toClient += bytes.toString('latin1')),
    rewritten: () => {},
    failed: (error) => assert.fail(String(error)),
  });
  const engine = (text: string) => {
    const bytes = Buffer.from(text, 'latin1');
    for (let at = 0; at < bytes.length; at += chunk) made.fromEngine(bytes.subarray(at, at + chunk));
  };
  engine(m('K', key) + started);
  sides.toClient = '';
  return {
    made,
    sides,
    engine,
    client: (text: string) => made.fromClient(Buffer.from(text, 'latin1')),
    flushed: () => flushed,
  };
}

/** Lets promises settle. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("Headgate's own queries in a session are answered to Headgate only, and notices and settings pass to the client", async () => {
  for (const chunk of [1, 2, 3, 7, 1000]) {
    const seen: (readonly OwnRow[])[] = [];
    const { sides, engine, client, flushed } = session(chunk, async (queries) => {
      assert(!queries.inTransaction);
      seen.push(await queries.run('A'), await queries.run('B'));
      return 'SELECT 1';
    });
    const held = client(q('EXPLAIN'));
    assert.equal(sides.toEngine, q('A'));
    const passing = m('N', 'SNOTICE\0\0') + m('S', 'TimeZone\0UTC\0');
    engine(m('T', '\0\0') + row('a', null) + passing + row('', 'é') + done('SELECT 2') + inTransaction);
    await settled();
    assert.equal(sides.toEngine, q('A') + q('B'));
    assert.equal(sides.toClient, passing);
    engine(done('COMMIT') + ready);
    await held;
    assert.deepEqual(seen, [
      [
        ['a', null],
        ['', 'é'],
      ],
      [],
    ]);
    assert.equal(sides.toEngine, q('A') + q('B') + q('SELECT 1'));
    assert.equal(flushed(), 2);
    engine(m('T', '\0\0') + done('SELECT 1') + ready);
    assert.equal(sides.toClient, passing + m('T', '\0\0') + done('EXPLAIN') + ready);
  }
});

test("a failed, cancelled or pipelined query of Headgate's own in a session ends with the SQLSTATE of the reason", async () => {
  const reasons: string[] = [];
  const work = async (queries: SessionQueries) => {
    try {
      await queries.run('A');
      await queries.run('B');
      return 'SELECT 1';
    } catch (error) {
      assert(error instanceof SqlFailure);
      reasons.push(`${error.error.sqlstate} ${error.error.position ?? 'nowhere'}`);
      await queries.run('END', true).catch(() => undefined);
      throw error;
    }
  };
  const refused = session(3, work);
  const held = refused.client(q('EXPLAIN'));
  refused.engine(failed('42501', 'no') + ready);
  await settled();
  assert.equal(refused.sides.toEngine, q('A') + q('END'));
  refused.engine(done('ROLLBACK') + ready);
  await held;
  assert.equal(refused.sides.toEngine, q('A') + q('END') + q('!'));
  refused.engine(failed('42601', 'syntax error') + ready);
  assert.match(refused.sides.toClient, /C42501\0Mno\0/);

  const cancelled = session(1, work);
  const waiting = cancelled.client(q('EXPLAIN'));
  assert(cancelled.made.isCancelledBy(cancelRequest));
  assert(!cancelled.made.isCancelledBy(Buffer.concat([cancelRequest.subarray(0, 15), Buffer.from('x')])));
  assert(!cancelled.made.isCancelledBy(cancelRequest.subarray(0, 12)));
  cancelled.made.cancel();
  cancelled.engine(done('SELECT 0') + ready);
  await settled();
  cancelled.engine(done('ROLLBACK') + ready);
  await waiting;
  assert.equal(cancelled.sides.toEngine, q('A') + q('END') + q('!'));

  const left = session(1, work);
  const gone = left.client(q('EXPLAIN'));
  left.made.leave();
  await gone;
  assert.equal(left.sides.toEngine, q('A') + q('!'));

  const piped = session(1, work);
  await piped.client(q('SELECT 1') + q('EXPLAIN'));
  assert.equal(piped.sides.toEngine, q('SELECT 1') + q('!'));
  assert.deepEqual(reasons, ['42501 nowhere', '57014 nowhere', '08006 nowhere', '0A000 nowhere']);
});
