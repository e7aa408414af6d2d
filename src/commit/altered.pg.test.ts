/**
 * What senders are told when the engine's answer is cut, or altered, at each of its messages, on every way by which rows are stored:
 * a 200 has its row once, "nothing was stored" has none, and nothing is stored twice unless the outcome was unknown.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, commitRoom, committer, webhookRoom } from '../../test/support/commit-room.ts';
import { errorMessage, FaultyProxy } from '../../test/support/faulty-proxy.ts';
import { Spy } from '../../test/support/postgres.ts';
import { sampleOf, times } from '../../test/support/sample.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

const document = `CREATE TABLE document (data JSONB, check (data ->> 'bad' is null)) WITH (connector = 'webhook')`;
const row = 'create table row (id int, bad text check (bad is null))';
const keyed = 'create table keyed (id int primary key, bad text check (bad is null))';

/** The way, its table, and what a group holds. */
const ways: readonly (readonly [
  name: string,
  table: string,
  make: string,
  members: readonly ('good' | 'bad')[],
])[] = [
  ['a document alone', 'document', document, ['good']],
  ['a COPY', 'document', document, ['good', 'good']],
  ['a COPY that is cut', 'document', document, ['good', 'bad', 'good']],
  ['a row', 'row', row, ['good', 'good']],
  ['a row with a key', 'keyed', keyed, ['good', 'good']],
  ['rows that are settled one by one', 'keyed', keyed, ['good', 'bad', 'good']],
];

const said: Readonly<Record<string, Buffer>> = {
  'an ERROR, and the end': errorMessage('ERROR', '57P01'),
  'an ERROR of a constraint, and the end': errorMessage('ERROR', '23514'),
  'an ERROR, a PANIC, and the end': Buffer.concat([
    errorMessage('ERROR', 'XX000'),
    errorMessage('PANIC', 'XX000'),
  ]),
  'a FATAL, and the end': errorMessage('FATAL', '57P01'),
};

async function room(t: TestContext, table: string, make: string) {
  const { client, database, targetOf, tableOf } = await webhookRoom(t);
  const proxy = await FaultyProxy.open(database.engine.endpoint());
  onEnd(t, 'proxy', () => proxy.close());
  if (table === 'document') await runOurs(client, make);
  else await client.query(make);
  const target: Target = table === 'document' ? await targetOf(table) : await tableOf(table);
  const clientConfig = (name: string) => ({
    ...database.engine.clientConfig(name),
    host: '127.0.0.1',
    port: proxy.port,
  });
  const send = committer(t, { ...database.engine, clientConfig }, new Spy());
  const ids = table === 'document' ? `(data ->> 'id')::int` : 'id';
  const copies = async (id: number): Promise<number> => {
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::int as n from ${table} where ${ids} = $1`,
      [id],
    );
    return rows[0]?.n ?? 0;
  };
  let last = 0;
  const member = (kind: 'good' | 'bad'): { id: number; rows: Rows } => {
    const id = ++last;
    const bad = kind === 'bad' ? ',"bad":"yes"' : '';
    return { id, rows: { ...rowsOf(target, `{"id":${id}${bad}}`), ackTimeoutMs: 20_000 } };
  };
  const group = async (kinds: readonly ('good' | 'bad')[]) => {
    const members = kinds.map(member);
    const outcomes = await send(members.map(({ rows }) => rows));
    for (const [i, { id }] of members.entries()) told(outcomes[i], await copies(id), kinds[i] === 'bad');
    return outcomes;
  };
  /** A connection that is open and has prepared what it needs. */
  const warm = async () => assert.deepEqual(codes(await send([member('good').rows])), [1]);
  return { client, proxy, group, warm };
}

function told(outcome: Outcome | undefined, copies: number, bad: boolean): void {
  if (outcome?.kind === 'committed') assert.equal(copies, 1, 'told to be stored');
  else if (outcome?.kind === 'aborted') assert.equal(copies, 0, 'told not to be stored');
  else assert(copies <= 1, 'not known');
  if (bad) assert.equal(copies, 0);
}

/** The places of the messages that come when nothing but the commit is left. */
function commitPlaces(trace: string, ownCommit: boolean): number[] {
  // Behind a COMMIT of its own, and what confirms the table, come questions about the rows that were refused.
  const last = ownCommit ? trace.lastIndexOf('DCZCZ') + 4 : trace.lastIndexOf('Z');
  return trace[last - 1] === 'C' ? [last - 1, last] : [last];
}

suite('altered replies of the engine never make a false acknowledgement', () => {
  for (const [name, table, make, members] of ways) {
    test(`an ERROR in the altered reply to ${name} is final once the engine is ready again`, async (t) => {
      const { proxy, group, warm } = await room(t, table, make);
      // A group that is cut has a hundred places.
      const isCut = members.includes('bad');
      const some = Object.entries(said).slice(isCut ? 2 : 0);
      const step = times(isCut ? 8 : 3, 1);
      const [first = 0] = sampleOf(
        Array.from({ length: step }, (_, place) => place),
        1,
      );
      for (const [i, [what, bytes]] of some.entries()) {
        let cuts = 0;
        // Each answer begins at another place.
        for (let place = (first + i) % step; ; place += step) {
          await warm();
          proxy.replaceAfter(place, bytes, 'cut');
          const before = proxy.cuts;
          const outcomes = await group(members);
          proxy.cutAfter('server', Infinity);
          if (proxy.cuts === before) break;
          cuts += 1;
          assert(
            outcomes.every((o) => o.kind !== 'aborted' || o.refusal.code !== 'internal'),
            `${what} at ${place}: ${codes(outcomes).join()}`,
          );
        }
        assert(cuts * step >= 4, `${cuts} places`);
      }
    });

    test(`a false ERROR at the COMMIT of ${name} is answered by the fate of its transaction, or as unknown`, async (t) => {
      const { client, proxy, group, warm } = await room(t, table, make);
      await warm();
      proxy.cutAfter('server', Infinity);
      const usual = codes(await group(members));
      const places = commitPlaces(proxy.trace, name.startsWith('rows that are settled'));
      for (const sqlstate of sampleOf(['XX000', '08006', '58030', '57P01', '53100'], 2)) {
        for (const place of places) {
          await warm();
          proxy.replaceAfter(place, errorMessage('ERROR', sqlstate), 'ready');
          const before = proxy.cuts;
          assert.deepEqual(codes(await group(members)), usual, `${sqlstate} at ${place}`);
          assert.equal(proxy.cuts, before + 1);
        }
      }
      // Where it cannot be asked about it is not known, and not tried again.
      await client.query(
        `create schema hidden; alter function pg_catalog.pg_xact_status(xid8) set schema hidden`,
      );
      for (const place of places) {
        await warm();
        proxy.replaceAfter(place, errorMessage('ERROR', 'XX000'), 'ready');
        const outcomes = codes(await group(members));
        assert.deepEqual(
          outcomes,
          usual.map((it) => (it === 1 ? 'unknown commit_unknown' : it)),
          `${place}`,
        );
      }
    });
  }

  test('a rollback on one server is answered commit_unknown for rows that Citus spreads over several servers', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query(`create table t (id int, file text);
      create function read() returns trigger language plpgsql as $$ begin
        if new.file is not null then perform pg_read_file(new.file); end if; return new; end $$;
      create constraint trigger read after insert on t deferrable initially deferred for each row execute function read()`);
    const target = await tableOf('t');
    const attempt = async () => codes(await send([rowsOf(target, '{"id":1,"file":"nosuch"}')]));
    assert.deepEqual(await attempt(), ['aborted engine_unavailable']);
    await client.query(
      `insert into pg_extension select 1, 'citus', extowner, extnamespace, false, '1', null, null from pg_extension limit 1`,
    );
    assert.deepEqual(await attempt(), ['unknown commit_unknown']);
    assert.deepEqual(codes(await send([rowsOf(target, '{"id":2}')])), [1]);
  });
});
