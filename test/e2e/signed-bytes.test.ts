import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { onSomeEngine } from '../support/doors.ts';

const sign = (key: string, bytes: string | Buffer) => createHmac('sha256', key).update(bytes).digest('hex');

onSomeEngine(
  'VALIDATE reads repeated headers and compressed bodies as senders sign them',
  async (t, { client, headgate, database, rows }) => {
    const send = (table: string, body: string | Buffer, headers: Record<string, string | string[]>) =>
      new Promise<number | undefined>((resolve, reject) => {
        const url = `${headgate.webhookUrl}/${database}/public/${table}`;
        const asking = request(url, { method: 'POST', headers }, (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode));
        });
        asking.on('error', reject).end(body);
      });

    await t.test(
      'header_values accepts a signature header that arrives twice if one of its values fits',
      async () => {
        await client.query(`
      CREATE SECRET new_key WITH (backend = 'meta') AS 'new';
      CREATE TABLE rotated (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET new_key AS
        secure_compare_any('sha256=' || encode(hmac(new_key, payload, 'sha256'), 'hex'), header_values('x-mollie-signature'));
      CREATE TABLE one (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET new_key AS
        secure_compare(headers->>'x-mollie-signature', 'sha256=' || encode(hmac(new_key, payload, 'sha256'), 'hex'))`);
        const body = '{"resource":"event"}';
        const [old, current] = [`sha256=${sign('old', body)}`, `sha256=${sign('new', body)}`];
        for (const [table, values, status] of [
          ['rotated', [old, current], 200],
          ['rotated', [current, old], 200],
          ['rotated', [current], 200],
          ['rotated', [old, old], 401],
          ['rotated', [], 401],
          ['one', [current], 200],
          ['one', [old, current], 401],
          ['one', [current, current], 401],
        ] as const)
          assert.equal(
            await send(table, body, { 'X-Mollie-Signature': [...values] }),
            status,
            `${table} ${values.join()}`,
          );
        assert.deepEqual(await rows('SELECT count(*) FROM rotated'), [['3']]);
        const explained = await client.query<{ accepted: boolean }>(
          `EXPLAIN VALIDATE rotated WITH (headers = '${JSON.stringify({ 'x-mollie-signature': current })}', body = '${body}')`,
        );
        assert.match(JSON.stringify(explained.rows), /accepted|true/);
        for (const wrong of [`header_values(headers->>'a')`, `header_values('a', 'b')`])
          await assert.rejects(
            client.query(
              `CREATE TABLE no (data JSONB) WITH (connector = 'webhook') VALIDATE AS secure_compare_any('key', ${wrong})`,
            ),
            /constant|does not exist/,
          );
      },
    );

    await t.test('encoded_body in VALIDATE is the compressed body', async () => {
      await client.query(`
      CREATE SECRET nylas_key WITH (backend = 'meta') AS 'nylas';
      CREATE TABLE compressed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET nylas_key AS
        secure_compare(headers->>'x-nylas-signature', encode(hmac(nylas_key, encoded_body, 'sha256'), 'hex'))`);
      const body = JSON.stringify({ data: 'x'.repeat(200_000) });
      const packed = gzipSync(body);
      const gzip = { 'content-encoding': 'gzip' };
      assert.equal(
        await send('compressed', packed, { ...gzip, 'x-nylas-signature': sign('nylas', packed) }),
        200,
      );
      assert.equal(
        await send('compressed', packed, { ...gzip, 'x-nylas-signature': sign('nylas', body) }),
        401,
      );
      assert.equal(await send('compressed', body, { 'x-nylas-signature': sign('nylas', body) }), 200);
      assert.deepEqual(await rows(`SELECT length(data->>'data') FROM compressed`), [['200000'], ['200000']]);
    });
  },
);
