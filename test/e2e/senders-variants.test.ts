import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { accepted, onEachEngine } from '../support/doors.ts';

onEachEngine(
  'what senders do that the specifications allow, or that is harmless',
  async (t, { client, post, rows, headgate, database }) => {
    await client.query(`
      CREATE TABLE docs (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE lines (data JSONB) WITH (connector = 'webhook', is_batched = true);
      CREATE SECRET token WITH (backend = 'meta') AS 'the token';
      CREATE TABLE bearers (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET token USING bearer`);

    await t.test('a Content-Encoding that names the charset is none', async () => {
      for (const encoding of ['UTF-8', 'utf8', 'utf-8, identity'])
        await accepted(post('docs', '{"a":"é"}', { 'content-encoding': encoding }));
      assert.equal((await post('docs', '{}', { 'content-encoding': 'latin1' })).status, 415);
      assert.deepEqual(await rows(`SELECT DISTINCT data->>'a' FROM docs`), [['é']]);
    });

    await t.test(
      'the scheme of Authorization is read in upper and lower case, the token is not',
      async () => {
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
      },
    );

    await t.test('a batch in one chunk for each line is stored, however short its lines are', async () => {
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

    await t.test('an idle connection stays open as long as the setting says', async () => {
      const answer = await headgate.post(`${database}/public/docs`, '{}');
      assert.equal(answer.headers.get('keep-alive'), 'timeout=610');
    });
  },
  { HEADGATE_KEEP_ALIVE_SECONDS: '610' },
);
