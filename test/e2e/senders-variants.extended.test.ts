import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { accepted, onSomeEngine } from '../support/doors.ts';

onSomeEngine(
  'unusual but allowed requests of senders are accepted',
  async (t, { client, post, rows, headgate, database }) => {
    await client.query(`
      CREATE TABLE docs (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE lines (data JSONB) WITH (connector = 'webhook', is_batched = true);
      CREATE SECRET token WITH (backend = 'meta') AS 'the token';
      CREATE TABLE bearers (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET token USING bearer`);

    await t.test('a Content-Encoding that names UTF-8 is accepted as no encoding', async () => {
      for (const encoding of ['UTF-8', 'utf8', 'utf-8, identity'])
        await accepted(post('docs', '{"a":"é"}', { 'content-encoding': encoding }));
      assert.equal((await post('docs', '{}', { 'content-encoding': 'latin1' })).status, 415);
      assert.deepEqual(await rows(`SELECT DISTINCT data->>'a' FROM docs`), [['é']]);
    });

    await t.test('the scheme of Authorization is case-insensitive, the token is not', async () => {
      const send = (authorization: string) =>
        headgate.post(`${database}/public/bearers`, '{}', { authorization });
      for (const scheme of ['Bearer', 'bearer', 'BEARER'])
        assert.equal((await send(`${scheme} the token`)).status, 200, scheme);
      for (const wrong of [
        'Bearer The token',
        'Bearer the toke',
        'Bearer  the token',
        'Basic the token',
        'the token',
        'Bearer ',
      ])
        assert.equal((await send(wrong)).status, 401, wrong);
    });

    await t.test('a batch of 20,000 lines, each in its own HTTP chunk, is stored', async () => {
      const socket = connect(headgate.ports.listen.port, '127.0.0.1');
      t.after(() => socket.destroy());
      const chunks = Array.from({ length: 20_000 }, (_, id) => `{"i":${id}}\n`);
      const head = `POST /webhook/${database}/public/lines HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n`;
      socket.write(head);
      for (const chunk of chunks) socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
      socket.write('0\r\n\r\n');
      const [answer] = (await once(socket, 'data')) as [Buffer];
      assert.match(answer.toString(), /200 OK[^]*\{"rows":20000\}/);
    });

    await t.test('an integer column accepts whole numbers written with a point or an exponent', async () => {
      await client.query(`
        CREATE TABLE whole (id BIGINT, n INT, x FLOAT8) WITH (connector = 'webhook');
        CREATE TABLE whole_lines (id BIGINT, n INT, x FLOAT8) WITH (connector = 'webhook', is_batched = true)`);
      const numbers = [
        '7.0',
        '1e3',
        '-1.50e2',
        '0.0',
        '-0e9',
        '12e0',
        '1.200E+1',
        '9223372036854775807.0',
        '100e-2',
        '5',
      ];
      // PostgreSQL's own answer.
      const wanted = await rows(
        `SELECT n::numeric::bigint FROM unnest(ARRAY[${numbers.map((n) => `'${n}'`).join()}]) AS n`,
      );
      for (const [i, number] of numbers.entries()) {
        await accepted(post('whole', `{"id":${number},"x":1.5}`));
        assert.deepEqual(await rows('DELETE FROM whole RETURNING id, x'), [[wanted[i]?.[0], '1.5']], number);
      }
      const lines = numbers.map((number) => `{"n":1,"x":0.5,"id":${number}}`);
      await accepted(post('whole_lines', lines.join('\n')), lines.length);
      assert.deepEqual(await rows('SELECT id FROM whole_lines'), wanted);
      for (const wrong of ['7.5', '1e-1', '1e19', '9223372036854775808.0', '1e9999'])
        assert.equal((await post('whole', `{"id":${wrong}}`)).status, 422, wrong);
      assert.equal((await post('whole_lines', '{"id":1.0}\n{"id":1.5}')).status, 422);
      assert.deepEqual(await rows('SELECT count(*) FROM whole'), [['0']]);
    });

    await t.test('the Keep-Alive header says the time of HEADGATE_KEEP_ALIVE_SECONDS', async () => {
      const answer = await headgate.post(`${database}/public/docs`, '{}');
      assert.equal(answer.headers.get('keep-alive'), 'timeout=610');
    });
  },
  { HEADGATE_KEEP_ALIVE_SECONDS: '610' },
);
