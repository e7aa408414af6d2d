import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import twilio from 'twilio';
import { onSomeEngine } from '../support/doors.ts';
import { until } from '../support/until.ts';

const publicUrl = 'https://hooks.example.com';
const token = 'a twilio auth token';

interface Answered {
  readonly status: number;
  readonly allow: string | undefined;
  readonly cache: string | undefined;
  readonly text: string;
}

const methods = async (
  ...[t, { client, rows, headgate, database }]: Parameters<Parameters<typeof onSomeEngine>[1]>
): Promise<void> => {
  const ask = (
    method: string,
    target: string,
    headers: Record<string, string> = {},
    body: string | null = null,
  ) =>
    new Promise<Answered>((resolve, reject) => {
      const url = `${headgate.webhookUrl}/${database}/public/${target}`;
      const asking = request(url, { method, headers: { connection: 'close', ...headers } }, (answer) => {
        const pieces: Buffer[] = [];
        answer.on('data', (piece: Buffer) => pieces.push(piece));
        answer.on('end', () =>
          resolve({
            status: answer.statusCode ?? 0,
            allow: answer.headers.allow,
            cache: answer.headers['cache-control'],
            text: Buffer.concat(pieces).toString(),
          }),
        );
      });
      asking.on('error', reject).end(body ?? undefined);
    });
  const stored = async (table: string) =>
    (await rows(`DELETE FROM ${table} RETURNING data`)).map(([data]) => data);

  await t.test("Twilio's package signs a GET, and its query string becomes the document", async () => {
    await client.query(`
      CREATE SECRET twilio_token WITH (backend = 'meta') AS '${token}';
      CREATE TABLE calls (data JSONB) INCLUDE METHOD AS method INCLUDE BODY AS raw INCLUDE QUERY AS query
        WITH (connector = 'webhook', format = 'form', methods = 'get,POST') VALIDATE SECRET twilio_token USING twilio_form`);
    const query = '?CallSid=CA1&From=%2B14155550100&Body=Gr%C3%BC%C3%9Fe+%26+K&Empty=';
    const signed = (of: string) =>
      twilio.getExpectedTwilioSignature(token, `${publicUrl}/webhook/${database}/public/calls${of}`, {});
    const signature = { 'x-twilio-signature': signed(query) };
    const { status, cache } = await ask('GET', `calls${query}`, signature);
    assert.deepEqual([status, cache], [200, 'no-store']);
    const document = { CallSid: 'CA1', From: '+14155550100', Body: 'Grüße & K', Empty: '' };
    const [row] = await rows('DELETE FROM calls RETURNING data, method, encode(raw, $$hex$$), query');
    assert.deepEqual(JSON.parse(row?.[0] ?? ''), document);
    assert.deepEqual(row?.slice(1), ['GET', '', query.slice(1)]);
    for (const [target, headers, body] of [
      [`calls${query}&more=1`, signature, null],
      [`calls${query}`, {}, null],
      // The signature covers the URL alone: whoever has seen it must not add a document of his own.
      [`calls${query}`, { ...signature, 'content-length': '3' }, 'a=b'],
    ] as const)
      assert.notEqual((await ask('GET', target, headers, body)).status, 200, target);
    const posted = await ask(
      'POST',
      'calls',
      {
        'x-twilio-signature': twilio.getExpectedTwilioSignature(
          token,
          `${publicUrl}/webhook/${database}/public/calls`,
          { A: '1' },
        ),
        'content-type': 'application/x-www-form-urlencoded',
      },
      'A=1',
    );
    assert.equal(posted.status, 200, posted.text);
    assert.deepEqual(await stored('calls'), ['{"A": "1"}']);
  });

  await t.test(
    'a table accepts the HTTP methods of its option methods only, and POST without the option',
    async () => {
      await client.query(`
      CREATE TABLE posts (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE gets (data JSONB) WITH (connector = 'webhook', methods = 'GET');
      CREATE TABLE puts (data JSONB) WITH (connector = 'webhook', methods = 'PATCH, PUT')
        ANSWER UNCHECKED WHEN method = 'HEAD' STATUS 200`);
      for (const [method, table, status, allow] of [
        ['GET', 'posts?a=1', 405, 'POST'],
        ['PUT', 'posts', 405, 'POST'],
        ['HEAD', 'posts', 405, 'POST'],
        ['POST', 'gets', 405, 'GET'],
        ['HEAD', 'gets', 405, 'GET'],
        ['PUT', 'gets', 405, 'GET'],
        ['DELETE', 'gets', 405, 'GET'],
        ['GET', 'puts', 405, 'PUT, PATCH'],
        ['POST', 'puts', 405, 'PUT, PATCH'],
        ['GET', 'nothing', 404, undefined],
        ['HEAD', 'puts', 200, undefined],
        ['OPTIONS', 'gets', 204, undefined],
        ['GET', 'gets?a=1&a=2', 200, undefined],
        ['PUT', 'puts', 200, undefined],
        ['PATCH', 'puts', 200, undefined],
      ] as const) {
        const body = method === 'GET' || method === 'HEAD' || method === 'OPTIONS' ? null : '{"b":1}';
        const answered = await ask(method, table, {}, body);
        assert.deepEqual([answered.status, answered.allow], [status, allow], `${method} ${table}`);
      }
      assert.deepEqual(await stored('posts'), []);
      assert.deepEqual(await stored('gets'), ['{"a": "2"}']);
      assert.deepEqual(await stored('puts'), ['{"b": 1}', '{"b": 1}']);
    },
  );

  await t.test('ALTER TABLE changes the option methods, and SHOW CREATE TABLE prints it', async () => {
    await client.query(`
      CREATE TABLE changing (data JSONB) WITH (connector = 'webhook');
      ALTER TABLE changing SET (methods = 'Post, Get')`);
    assert.match(String(await rows('SHOW CREATE TABLE changing')), /methods = 'GET, POST'/);
    assert.equal((await ask('GET', 'changing?n=1')).status, 200);
    assert.deepEqual(await stored('changing'), ['{"n": "1"}']);
    await client.query('ALTER TABLE changing RESET (methods)');
    // Within a second, as any change of a table.
    await until(async () => (await ask('GET', 'changing?n=2')).status === 405);
    await stored('changing');
    for (const [value, words] of [
      ['HEAD', /HEAD.*not known/],
      ['GET, TRACE', /TRACE.*not known/],
      ['', /not known/],
    ] as const)
      await assert.rejects(client.query(`ALTER TABLE changing SET (methods = '${value}')`), words);
  });

  await t.test(
    'a table with methods and ANSWER answers a handshake by GET and stores other GETs',
    async () => {
      await client.query(`
      CREATE TABLE challenged (data JSONB) WITH (connector = 'webhook', methods = 'GET, POST')
        ANSWER UNCHECKED WHEN method = 'GET' TYPE 'text/plain' BODY shaped(query->>'challenge', 'token', 128)`);
      assert.equal((await ask('GET', 'challenged?challenge=abc')).text, 'abc');
      assert.equal((await ask('GET', 'challenged?event=1')).text, '{"rows":1}');
      assert.deepEqual(await stored('challenged'), ['{"event": "1"}']);
    },
  );

  await t.test(
    'the query string of a GET fills columns as a form does, and dedupe finds ids in it',
    async () => {
      await client.query(`
      CREATE TABLE receipts ("messageId" TEXT, price NUMERIC, at TIMESTAMPTZ)
        WITH (connector = 'webhook', methods = 'GET, POST', dedupe = '$.messageId');
      CREATE TABLE texts (data TEXT) WITH (connector = 'webhook', format = 'text', methods = 'GET');
      CREATE TABLE lines (data JSONB) WITH (connector = 'webhook', is_batched = true, methods = 'GET, POST')`);
      const query = '?messageId=0A1&price=0.0333&at=2026-11-27+10%3A00%3A00Z';
      for (const [target, status] of [
        [`receipts${query}`, 200],
        [`receipts${query}`, 200],
        [`receipts${query}&more=1`, 202],
        ['receipts?price=1', 422],
        ['receipts?messageId=0A2&price=&at=', 200],
        ['receipts?messageId=0A3&price=x', 422],
        ['texts?a=%20+b', 200],
        ['lines?a=1', 200],
      ] as const)
        assert.equal((await ask('GET', target)).status, status, target);
      assert.deepEqual(await rows('SELECT "messageId", price FROM receipts ORDER BY 1'), [
        ['0A1', '0.0333'],
        ['0A2', null],
      ]);
      assert.deepEqual(await stored('texts'), ['a=%20+b']);
      assert.deepEqual(await stored('lines'), ['{"a": "1"}']);
    },
  );

  await t.test('a refused GET is kept with its query string, and a retry stores it', async () => {
    await client.query(`
      CREATE TABLE kept (data JSONB) WITH (connector = 'webhook', methods = 'GET, POST')
        VALIDATE AS secure_compare(query->>'key', 'a key')`);
    assert.equal((await ask('GET', 'kept?key=wrong&n=1')).status, 401);
    assert.equal((await ask('POST', 'kept?key=wrong&n=1', {}, '{}')).status, 401);
    const refused = `SELECT id FROM headgate.rejected_requests WHERE table_name = 'kept' AND method = 'GET'`;
    const targets = `SELECT target FROM headgate.rejected_requests WHERE table_name = 'kept' ORDER BY method`;
    await until(async () => (await rows(targets)).length === 2);
    const kept = await rows(targets);
    // What a table stores of a GET is no secret to its owner; of a POST the query may be a key, which no column takes.
    assert.match(kept.join(), /kept\?key=wrong&n=1,.*kept\?key=\*\*\*&n=\*\*\*$/);
    await client.query(`SELECT headgate.retry_rejected((${refused}), force => true)`);
    const underWay = `${refused} AND retry_outcome IN ('waiting', 'running')`;
    await until(async () => (await rows(underWay)).length === 0);
    assert.deepEqual(await stored('kept'), ['{"n": "1", "key": "wrong"}']);
  });

  await t.test('a GET with a query string above the limit gets 414', async () => {
    await client.query(`CREATE TABLE large (data JSONB) WITH (connector = 'webhook', methods = 'GET')`);
    const statuses = [];
    for (const bytes of [7_000, 64 * 1024, 1024 * 1024])
      statuses.push((await ask('GET', `large?a=${'x'.repeat(bytes)}`)).status);
    assert.deepEqual(statuses, [200, 414, 414]);
    assert.equal((await ask('GET', `large?${'&a'.repeat(3_000)}=%FF`)).status, 422);
    assert.equal((await ask('GET', 'large?a=%00')).status, 422);
    assert.equal((await ask('GET', 'large', { 'transfer-encoding': 'chunked' })).status, 200);
    assert.deepEqual(
      (await rows('SELECT length(data->>$$a$$) FROM large ORDER BY 1')).map(([n]) => n),
      ['7000', null],
    );
  });

  await t.test(
    'CREATE TABLE warns of a VALIDATE that signs the body only where GET is accepted',
    async () => {
      const notices: string[] = [];
      client.on('notice', ({ message }) => void notices.push(message ?? ''));
      const check = (bytes: string) =>
        `VALIDATE AS secure_compare(headers->>'x-sig', encode(hmac('k', ${bytes}, 'sha256'), 'hex'))`;
      await client.query(
        `CREATE TABLE alone (data JSONB) WITH (connector = 'webhook', methods = 'GET') ${check('data')}`,
      );
      assert.equal(notices.filter((text) => text.includes('query string')).length, 1);
      await client.query(
        `CREATE TABLE whole (data JSONB) WITH (connector = 'webhook', methods = 'GET') ${check("data || convert_to(url, 'UTF8')")}`,
      );
      await client.query(
        `CREATE TABLE only_posts (data JSONB) WITH (connector = 'webhook') ${check('data')}`,
      );
      assert.equal(notices.filter((text) => text.includes('query string')).length, 1);
      const url = `${publicUrl}/webhook/${database}/public/whole?a=1`;
      const signature = createHmac('sha256', 'k').update(url).digest('hex');
      assert.equal((await ask('GET', 'whole?a=1', { 'x-sig': signature })).status, 200);
      assert.equal((await ask('GET', 'whole?a=2', { 'x-sig': signature })).status, 401);
    },
  );
};

onSomeEngine('tables with the option methods accept GET requests', methods, {
  HEADGATE_PUBLIC_URL: publicUrl,
});
