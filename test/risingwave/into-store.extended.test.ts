/** What becomes of a group of the spool in front of RisingWave: what fails for itself is told from an outage. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IntoRisingWave } from '../../src/risingwave/into.ts';
import { destinationOf } from '../../src/catalog/into-url.ts';
import { onEnd } from '../support/cleanup.ts';
import { Spy } from '../support/postgres.ts';
import { rowsOf, targetOf } from '../support/rows.ts';
import { onStandInOnly, openServer } from './support.ts';

test(
  'a spooled group is stored in RisingWave as a whole or reported as failed',
  { skip: onStandInOnly },
  async (t) => {
    const { standIn, client, dsn, table } = await openServer(t);
    const spy = new Spy();
    const room = new IntoRisingWave({ observe: spy.observe, clock: () => performance.now() });
    onEnd(t, 'room', () => room.close());
    const name = table();
    const into = destinationOf(dsn, [new URL(dsn).host], true);
    const columns = ['id', 'v'].map((it) => ({ name: it, type: 'text', baseType: 25, fallback: null }));
    const target = targetOf({ schema: 'public', table: name, into, shape: { writeMode: 'insert', columns } });
    const store = (...documents: string[]) => {
      const members = documents.map((document) => rowsOf(target, document));
      return room.store({ target, members, rows: members.length, bytes: 1 });
    };
    const ids = async () =>
      (await client.query<{ id: number }>(`SELECT id FROM ${name} ORDER BY id`)).rows.map(({ id }) => id);
    const kindOf = async (...documents: string[]) => (await store(...documents)).kind;

    const missing = await store('{"id": 1}');
    assert.equal(
      missing.kind === 'away' ? missing.refusal.message : '',
      `there is no table public.${name} there`,
    );
    await client.query(`CREATE TABLE ${name} (id INT, v VARCHAR)`);
    assert.equal(await kindOf('{"id": 1, "v": "x"}', '{"id": 2}'), 'stored');
    assert.deepEqual(await ids(), [1, 2]);
    const refused = await store('{"id": 3}', '{"id": "four"}');
    assert.equal(refused.kind, 'refused');
    assert.match('refusal' in refused ? refused.refusal.message : '', /column "id": /);
    assert.deepEqual(await ids(), [1, 2]);

    let inserts = 0;
    const failing = (first: number, fault: 'cut' | 'fail') => {
      inserts = 0;
      standIn.fault = ({ word }) => {
        if (word !== 'insert' || ++inserts > first) return null;
        return fault === 'cut' ? { kind: 'cut' } : { kind: 'fail', causes: ['cluster is recovering'] };
      };
    };
    // Of rows it ends the connection, of none it does not.
    failing(1, 'cut');
    assert.equal(await kindOf('{"id": 5}'), 'slow');
    failing(1, 'fail');
    assert.equal(await kindOf('{"id": 6}'), 'slow');
    // It stores nothing at all.
    failing(2, 'cut');
    assert.equal(await kindOf('{"id": 7}'), 'away');
    failing(2, 'fail');
    assert.equal(await kindOf('{"id": 8}'), 'away');
    standIn.fault = () => null;
    await client.query(`DROP TABLE ${name}`);
    await client.query(`CREATE TABLE ${name} (id INT, other VARCHAR)`);
    assert.equal(await kindOf('{"id": 9}'), 'changed');
    const lacking = await store('{"id": 9}');
    assert.match('refusal' in lacking ? lacking.refusal.message : '', /has no column "v"$/);
    assert.deepEqual(await ids(), []);
    await standIn.leave();
    assert.equal(await kindOf('{"id": 9}'), 'away');
  },
);
