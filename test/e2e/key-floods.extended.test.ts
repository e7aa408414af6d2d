/**
 * Keys of JSON objects, forms and headers that collide in hash tables, or that are slow to sort: through every door,
 * into every kind of table. Each gets its answer, others are served meanwhile, and what was answered 200 is stored.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { asked } from '../support/asked.ts';
import { limits } from '../../src/config/limits.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { colliding, likeNumbers, objectOf, slowToSort } from '../support/key-floods.ts';
import { seededRandom } from '../support/random.ts';
import { post, RawClient } from '../support/raw-http.ts';
import { isLong, sampleOf, sampleSeed, times } from '../support/sample.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const tables = `
  CREATE TABLE honest (data JSONB) WITH (connector = 'webhook');
  CREATE TABLE doc (data JSONB) WITH (connector = 'webhook');
  CREATE TABLE typed (id INT, more JSONB) WITH (connector = 'webhook');
  CREATE TABLE keyed (id INT PRIMARY KEY) WITH (connector = 'webhook');
  CREATE TABLE included (data JSONB) INCLUDE HEADERS AS headers WITH (connector = 'webhook');
  CREATE TABLE lines (id INT) WITH (connector = 'webhook', is_batched = true);
  CREATE TABLE form (data JSONB) WITH (connector = 'webhook', format = 'form');
  CREATE TABLE typed_form (id INT) WITH (connector = 'webhook', format = 'form');
  CREATE TABLE checked (data JSONB) WITH (connector = 'webhook') VALIDATE AS
    convert_from(data, 'UTF8')::jsonb = convert_from(data, 'UTF8')::jsonb
    AND secure_compare(headers->>'x-key', 'secret') AND secure_compare(query->>'1000000000', 'x');
  CREATE TABLE event (id INT)`;

const names = [...tables.matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => name);

/** As many members as one object may have, and one more than that. */
const membersMax = Math.floor(Math.sqrt(limits.jsonMembersSquaredMax));
const tooMany = objectOf(Array.from({ length: membersMax + 1 }, (_, i) => `k${i}`));

const shared = sharedHeadgate();

/** With empty tables. */
async function started(t: TestContext): Promise<Headgate> {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`DROP TABLE IF EXISTS ${names.join()}`);
  await client.query(tables);
  await within(2_000, async () => assert.equal((await headgate.post('dev/public/honest', '{}')).status, 200));
  return headgate;
}

test('objects whose keys collide or are slow to sort are stored through every port', async (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  t.diagnostic(sampleSeed);
  const headgate = await started(t);
  // To find keys that collide takes longer than all else.
  const floods = [colliding(times(200, 1_500), random), slowToSort(3_000), likeNumbers(3_000)];
  const bodies = floods.map((keys) => objectOf(keys, '"id":1,'));
  const stored = new Map<string, number>();
  const took = (table: string, rows: number) => stored.set(table, (stored.get(table) ?? 0) + rows);
  const to = async (table: string, body: string, headers: Record<string, string> = {}) => {
    const { status, text } = await headgate.post(`dev/public/${table}`, body, headers);
    assert.equal(status, 200, `${table}: ${text}`);
    took(table.replace(/\?.*/, ''), (JSON.parse(text) as { rows: number }).rows);
  };
  const headers = Object.fromEntries(likeNumbers(180).map((name) => [name, 'x']));
  const query = likeNumbers(500).map((name) => `${name}=x`);
  /** Each kind of keys comes through every third door, and the suite begins with another one in each run. */
  const first = sampleOf([0, 1, 2], 1)[0] ?? 0;
  for (const [i, keys] of floods.entries()) {
    const body = bodies[i] ?? '';
    let turn = first + i;
    const isIts = () => isLong || turn++ % 3 === 0;
    await to('doc', body);
    if (isIts()) await to('typed', body.replace('{', '{"more":[{"a":1}],'));
    if (isIts()) await to('keyed', body);
    if (isIts()) await to('included', body, headers);
    if (isIts()) await to('lines', `${body}\n${body}\n`);
    const fields = ['id=1', ...keys.map((key) => `${encodeURIComponent(key)}=1`)].join('&');
    if (isIts()) await to('form', fields);
    if (isIts()) await to('typed_form', fields);
    if (isIts()) await to(`checked?${query.join('&')}`, body, { 'x-key': 'secret' });
    for (const events of [body, `${body}\n${body}`]) {
      if (!isIts()) continue;
      const url = `${headgate.gatewayUrl}/v1/events?name=event`;
      const { status, text } = await asked(url, { method: 'POST', body: events });
      assert.equal(status, 200, text);
      took('event', (JSON.parse(text) as { rows: number }).rows);
    }
  }
  const url = headgate.webhookUrl.replace(/^http(.*)webhook$/, 'ws$1ingest/dev/public/typed');
  const socket = await WsClient.open(url);
  t.after(() => socket.ws.terminate());
  for (const [i, body] of bodies.entries())
    socket.ws.send(`{"dml_batch_id":${i},"items":[{"op":"insert","data":${body}}]}`);
  await socket.acked(bodies.length);
  took('typed', bodies.length);

  stored.set('keyed', 1);
  const client = await headgate.client(t);
  for (const [table, count] of stored) {
    const { rows } = await client.query(`select count(*)::int as n from ${table}`);
    assert.deepEqual(rows, [{ n: count }], table);
  }
  const { rows } = await client.query(
    `select (select count(*)::int from doc, jsonb_object_keys(data)) as members,
       (select min(n)::int from included, lateral (select count(*) as n from jsonb_object_keys(headers)) as h) >= 180 as headers`,
  );
  const members = floods.reduce((sum, keys) => sum + keys.length + 1, 0);
  assert.deepEqual(rows, [{ members, headers: true }]);
});

test('an object with too many members is refused at every port, and so are many large objects', async (t) => {
  const headgate = await started(t);
  const reason = /its objects have too many members/;
  const large = objectOf(Array.from({ length: 12_000 }, (_, i) => `k${i}`));
  const many = Array<string>(7).fill(large);
  /** With a key that is a column, without which a row is refused for that. */
  const known = (object: string) => `{"id":1,${object.slice(1)}`;
  const questions: [table: string, body: string][] = [
    ['doc', tooMany],
    ['doc', `[[{"a":${tooMany}}]]`],
    ['doc', `[${many.join()}]`],
    ['typed', known(tooMany)],
    ['included', known(tooMany)],
    ['lines', `{"id":1}\n${known(tooMany)}\n`],
    ['lines', many.map(known).join('\n')],
  ];
  for (const [table, body] of questions) {
    const { status, text } = await headgate.post(`dev/public/${table}`, body);
    assert.equal(status, 422, `${table}: ${text}`);
    assert.match(text, reason);
  }
  const fields = Array.from({ length: limits.formFieldsMax + 1 }, (_, i) => `${i}=1`).join('&');
  for (const table of ['form', 'typed_form'])
    assert.equal((await headgate.post(`dev/public/${table}`, fields)).status, 413);
  const events = [known(tooMany), `{"id":1}\n${known(tooMany)}`, many.map(known).join('\n')];
  for (const body of events) {
    const { status, text } = await asked(`${headgate.gatewayUrl}/v1/events?name=event`, {
      method: 'POST',
      body,
    });
    assert.equal(status, 422);
    assert.match(text, reason);
  }
  const url = headgate.webhookUrl.replace(/^http(.*)webhook$/, 'ws$1ingest/dev/public/typed');
  for (const items of [[known(tooMany)], many.map(known)]) {
    const socket = await WsClient.open(url);
    const data = items.map((item) => `{"op":"insert","data":${item}}`).join();
    socket.ws.send(`{"dml_batch_id":1,"items":[${data}]}`);
    assert.match((await socket.ended).fatal ?? '', reason);
  }
  const client = await headgate.client(t);
  const counts = ['doc', 'typed', 'included', 'lines', 'form', 'typed_form', 'event'];
  for (const table of counts)
    assert.deepEqual((await client.query(`select count(*)::int as n from ${table}`)).rows, [{ n: 0 }], table);
});

test('small requests are answered before large objects whose keys are slow to sort', async (t) => {
  const headgate = await started(t);
  const body = objectOf(slowToSort(membersMax));
  const answered: string[] = [];
  const floods = Array.from({ length: times(2, 8) }, async () => {
    const client = await RawClient.connect(headgate.ports.listen.port);
    t.after(() => client.destroy());
    client.send(post('/webhook/dev/public/doc', body));
    const answer = await client.answer();
    answered.push('flood');
    return answer?.status;
  });
  const honest = await RawClient.connect(headgate.ports.listen.port);
  t.after(() => honest.destroy());
  const ended = Promise.all(floods);
  for (let i = 0; i < 5; i++) {
    honest.send(post('/webhook/dev/public/honest', '{}'));
    assert.equal((await honest.answer())?.status, 200);
    answered.push('honest');
  }
  const statuses = await ended;
  assert.equal(answered.at(-1), 'flood', answered.join());
  assert(
    statuses.every((status) => status === 200 || status === 503),
    statuses.join(),
  );
  const client = await headgate.client(t);
  const { rows } = await client.query<{ n: number }>('select count(*)::int as n from doc');
  const committed = statuses.filter((status) => status === 200).length;
  assert((rows[0]?.n ?? 0) >= committed, 'nothing that was answered 200 is lost');
});
