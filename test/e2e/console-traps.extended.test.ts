/**
 * An address that somebody sends runs no code of its sender with the rights of whoever opens it: a schema that is called headgate, a cast, a
 * view. Each trap raises an error that says whose rights it has, and PostgreSQL shows that it works.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { readFirst } from '../../src/console/new-endpoint.ts';
import { readOrder, rowPage, startsOf } from '../../src/console/row-pages.ts';
import type { RowPage } from '../../src/console/row-pages.ts';
import { consoleLink, post } from '../support/console.ts';
import type { Asked } from '../support/console.ts';
import { sharedHeadgate } from '../support/headgate.ts';

const started = sharedHeadgate();
const raises = `RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$`;

/** The role, and what root's session in a database answers. */
async function roomOf(t: TestContext, role: string) {
  const headgate = await started();
  const root = await headgate.client(t);
  await root.query(`CREATE ROLE ${role} LOGIN CREATEDB`);
  const { port } = headgate.ports.admin;
  const link = /#t=([\w-]+)/.exec(await consoleLink(headgate))?.[1] ?? '';
  const token = await tokenOf(post(port, 'login', { link }));
  return { headgate, root, port, token };
}

const tokenOf = async (answer: Promise<Asked>): Promise<string> =>
  (JSON.parse((await answer).text) as { token: string }).token;

const works = (client: Client, sql: string): Promise<void> =>
  assert.rejects(client.query(sql), { message: 'ran as root' });

test("the console does not use a schema headgate that is not Headgate's", async (t) => {
  const { headgate, root, port, token } = await roomOf(t, 'planter');
  await (await headgate.clientAs(t, 'planter')).query('CREATE DATABASE planted');
  await root.query('CREATE DATABASE empty');
  const planter = await headgate.clientAs(t, 'planter', 'planted');
  await planter.query(`CREATE SCHEMA headgate; GRANT USAGE ON SCHEMA headgate TO PUBLIC;
    CREATE FUNCTION headgate.trap() ${raises};
    CREATE VIEW headgate.rejected_requests AS SELECT headgate.trap() AS code;
    GRANT SELECT ON headgate.rejected_requests TO PUBLIC`);
  const sql = 'SELECT code FROM headgate.rejected_requests';
  await works(await headgate.client(t, 'planted'), sql);
  const [there, empty] = await Promise.all(
    ['planted', 'empty'].map((database) => tokenOf(post(port, 'tab', { database }, token))),
  );
  for (const write of [false, true]) {
    const answer = await post(port, 'sql', { sql, write, own: true }, there);
    assert.equal(answer.status, 422);
    assert.match(answer.text, /was not made by Headgate.*"sqlstate":"42501"/);
  }
  const listed = await post(port, 'requests', { filter: {} }, there);
  assert.match(listed.text, /was not made by Headgate/);
  assert.match((await post(port, 'sql', { sql, write: false, own: true }, empty)).text, /"42P01"/);
  const other = { sql: 'SELECT current_database()', write: false, own: true };
  assert.match((await post(port, 'sql', other, there)).text, /"planted"/);
  assert.equal((await post(port, 'requests', { filter: {} }, token)).status, 200);
});

test('the console shows rows without running casts and views of their owner', async (t) => {
  const { headgate, root, port, token } = await roomOf(t, 'caster');
  await root.query('CREATE SCHEMA traps AUTHORIZATION caster');
  const caster = await headgate.clientAs(t, 'caster');
  await caster.query(`CREATE TYPE traps.kind AS (word text);
    CREATE FUNCTION traps.said(traps.kind) ${raises};
    CREATE CAST (traps.kind AS text) WITH FUNCTION traps.said(traps.kind);
    CREATE TABLE traps.rows (data traps.kind, n int);
    CREATE INDEX ON traps.rows (data);
    INSERT INTO traps.rows VALUES (ROW('found'), 1), (ROW(NULL), 2), (NULL, 3);
    CREATE FUNCTION traps.cell() ${raises};
    CREATE VIEW traps.seen AS SELECT 1::oid AS tableoid, '(0,1)'::tid AS ctid, '1'::xid AS xmin, traps.cell() AS data`);
  await works(root, 'SELECT data::text FROM traps.rows');
  await works(root, 'SELECT * FROM traps.seen');
  const look = async (sql: string): Promise<readonly (readonly (string | null)[])[]> => {
    const { status, text } = await post(port, 'sql', { sql, write: false, own: true }, token);
    assert.equal(status, 200, text);
    return (JSON.parse(text) as { tables: { rows: (string | null)[][] }[] }).tables[0]?.rows ?? [];
  };
  const of = { schema: 'traps', table: 'rows' };
  const page: RowPage = {
    column: 'data',
    direction: 'asc',
    from: null,
    text: '',
    names: ['data', 'n'],
    max: 9,
  };
  const pages = await look(rowPage(of, page));
  assert.deepEqual(
    pages.map(([, value, , data, n]) => [value, data, n]),
    [
      ['(found)', '(found)', '1'],
      ['()', '()', '2'],
      [null, null, '3'],
    ],
  );
  for (const sql of [
    rowPage(of, { ...page, text: 'FOUND' }),
    rowPage(of, { ...page, column: null, text: 'found' }),
    startsOf(of, page),
  ])
    assert.match(JSON.stringify(await look(sql)), /\(found\)/);
  assert.equal((await look(readFirst(of, ['data']))).length, 1);
  assert.equal((await look(readOrder(of))).length, 1);
  assert.deepEqual(await look(readOrder({ schema: 'traps', table: 'seen' })), []);
});
