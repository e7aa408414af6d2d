/** ANSWER, end to end: senders' questions are answered, nobody gets anything signed, and nothing of it is stored. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import type { Client } from 'pg';
import { limits } from '../../src/config/limits.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { RawClient } from '../support/raw-http.ts';

const mac = (key: string, text: string, form: 'hex' | 'base64' = 'hex') =>
  createHmac('sha256', key).update(text).digest(form);
const signedBy = (header: string, prefix = '') =>
  `secure_compare(headers->>'${header}', '${prefix}' || encode(hmac(s, payload, 'sha256'), 'hex'))`;
const table = (name: string, rest: string, options = '') =>
  `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook'${options}) ${rest}`;
const doc = "convert_from(payload, 'UTF8')::jsonb";
const x = `VALIDATE SECRET s AS secure_compare(headers->>'x-twitter-webhooks-signature', 'sha256=' || encode(hmac(s, payload, 'sha256'), 'base64'))`;
const crc = (value: string) =>
  `json_object('response_token', 'sha256=' || encode(hmac(s, convert_to(${value}, 'UTF8'), 'sha256'), 'base64'))`;

const tables = [
  "CREATE SECRET s WITH (backend = 'meta') AS 'Convoy'",
  "CREATE SECRET verify WITH (backend = 'meta') AS 'a verify token'",
  table('plain', `VALIDATE SECRET s AS ${signedBy('x-sig')}`),
  table('unguarded', ''),
  table('github', 'VALIDATE SECRET s USING github'),
  table('github_rows', 'VALIDATE SECRET s USING github ANSWER NONE'),
  table('github_batch', 'VALIDATE SECRET s USING github', ', is_batched = true'),
  table(
    'x_events',
    `${x} ANSWER UNCHECKED WHEN method = 'GET' AND query->>'crc_token' IS NOT NULL TYPE 'application/json'
      BODY ${crc("shaped(query->>'crc_token', 'token', 128)")} ANSWER STATUS 200`,
  ),
  table(
    'meta',
    `VALIDATE SECRET s AS ${signedBy('x-hub-signature-256', 'sha256=')}
     ANSWER SECRET verify UNCHECKED WHEN method = 'GET' AND query->>'hub.mode' = 'subscribe'
       AND secure_compare(query->>'hub.verify_token', verify) TYPE 'text/plain' BODY shaped(query->>'hub.challenge', 'token', 128)`,
  ),
  table(
    'slack',
    `VALIDATE SECRET s AS ${signedBy('x-sig')}
     ANSWER WHEN ${doc}->>'type' = 'url_verification' TYPE 'text/plain' BODY shaped(${doc}->>'challenge', 'token', 128)
     ANSWER WHEN (${doc}->>'type')::int = 1 AND ${doc}->'event' IS NULL TYPE 'application/json' BODY '{"type":1}'`,
  ),
  table(
    'smartsheet',
    `VALIDATE SECRET s AS ${signedBy('x-sig')} ANSWER UNCHECKED WHEN method = 'POST' AND headers->>'smartsheet-hook-challenge' IS NOT NULL
     HEADER 'Smartsheet-Hook-Response' = shaped(headers->>'smartsheet-hook-challenge', 'token', 128)`,
  ),
  table(
    'trello',
    `VALIDATE SECRET s AS ${signedBy('x-sig')} ANSWER UNCHECKED WHEN method = 'HEAD' STATUS 200`,
  ),
  table(
    'cloudevents',
    `VALIDATE SECRET s AS ${signedBy('x-sig')} ANSWER UNCHECKED WHEN method = 'OPTIONS'
     HEADER 'WebHook-Allowed-Origin' = shaped(headers->>'webhook-request-origin', 'plain', 128) HEADER 'WebHook-Allowed-Rate' = '*' HEADER 'Allow' = 'POST'`,
  ),
  table(
    'sms',
    `VALIDATE SECRET s AS ${signedBy('x-sig')} ANSWER TYPE 'text/xml' HEADER 'X-AdobeSign-ClientId' = headers->>'x-adobesign-clientid' BODY '<Response/>'`,
    ", format = 'form'",
  ),
  table('nothing', `VALIDATE SECRET s AS ${signedBy('x-sig')} ANSWER STATUS 204`),
];

async function raw(headgate: Headgate, ...requests: string[]) {
  const client = await RawClient.connect(headgate.ports.listen.port);
  client.send(requests.join(''));
  const answers = [];
  for (const _ of requests) answers.push(await client.answer());
  client.destroy();
  return answers;
}

const ask = (method: string, path: string, headers = '') =>
  `${method} /webhook/dev/public/${path} HTTP/1.1\r\nHost: h\r\n${headers}\r\n`;

async function get(headgate: Headgate, path: string) {
  const [answer] = await raw(headgate, ask('GET', path));
  assert.ok(answer);
  return answer;
}

async function rows(client: Client, name: string): Promise<number> {
  const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${name}`);
  return rows[0]?.n ?? -1;
}

/** Asks until it is so: what the SQL port has changed reaches the listener a moment later. */
async function until<T>(look: () => Promise<T>, done: (value: T) => boolean): Promise<T> {
  for (let attempt = 0; attempt < 2_000; attempt++) {
    const value = await look();
    if (done(value)) return value;
  }
  throw new Error('it never came to be');
}

test('ANSWER clauses answer handshakes and define answers to committed requests', async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  for (const sql of tables) await client.query(sql);
  const post = (name: string, body: string, headers: Record<string, string> = {}) =>
    headgate.post(`dev/public/${name}`, body, { 'content-type': 'application/json', ...headers });
  const signed = (name: string, body: string) => post(name, body, { 'x-sig': mac('Convoy', body) });

  await t.test(
    'a handshake is answered by ANSWER with safe headers, and nothing of it is stored',
    async () => {
      const answer = await get(headgate, 'x_events?crc_token=uzwcfYtzr9');
      assert.equal(answer.status, 200);
      assert.equal(answer.body, '{"response_token":"sha256=HXvxTdsfShG6k2zC9NVANwFquJBdOugRYHax2vNiiOo="}');
      for (const line of [
        'Content-Type: application/json',
        'X-Content-Type-Options: nosniff',
        "Content-Security-Policy: default-src 'none'; sandbox",
        'Cache-Control: no-store',
        'Referrer-Policy: no-referrer',
      ])
        assert.ok(answer.head.includes(`\r\n${line}\r\n`), line);
      assert.doesNotMatch(answer.head, /access-control/i);
      assert.ok(answer.head.length + 4 + answer.body.length <= 1_024);
      const meta = await get(
        headgate,
        'meta?hub.mode=subscribe&hub.verify_token=a+verify+token&hub.challenge=1158201444',
      );
      assert.deepEqual([meta.status, meta.body], [200, '1158201444']);
      assert.match(meta.head, /Content-Type: text\/plain; charset=utf-8/);
      const slack = await signed('slack', '{"type":"url_verification","challenge":"3eZbrw1aBm2r"}');
      assert.deepEqual([slack.status, slack.text], [200, '3eZbrw1aBm2r']);
      const sheet = await post('smartsheet', '{"challenge":"abc","webhookId":1}', {
        'smartsheet-hook-challenge': 'abc',
      });
      assert.deepEqual(
        [sheet.status, sheet.headers.get('smartsheet-hook-response'), sheet.text],
        [200, 'abc', ''],
      );
      assert.equal(sheet.headers.get('content-type'), null);
      const [head] = await raw(
        headgate,
        ask('OPTIONS', 'cloudevents', 'WebHook-Request-Origin: eventemitter.example.com\r\n'),
      );
      assert.match(
        head?.head ?? '',
        /WebHook-Allowed-Origin: eventemitter\.example\.com\r\nWebHook-Allowed-Rate: \*\r\nAllow: POST/,
      );
      for (const name of ['x_events', 'meta', 'slack', 'smartsheet', 'cloudevents'])
        assert.equal(await rows(client, name), 0);
      // HEAD tells how long a body would be, and sends none.
      await client.query(table('headed', "ANSWER UNCHECKED WHEN method = 'HEAD' BODY 'for HEAD'"));
      const headed = await until(
        () => fetch(`${headgate.webhookUrl}/dev/public/headed`, { method: 'HEAD' }),
        ({ status }) => status === 200,
      );
      assert.deepEqual([headed.headers.get('content-length'), await headed.text()], ['8', '']);
      const trello = await fetch(`${headgate.webhookUrl}/dev/public/trello`, { method: 'HEAD' });
      assert.deepEqual([trello.status, await trello.text()], [200, '']);
    },
  );

  await t.test('other requests to a table with ANSWER get the usual answers', async () => {
    const refused = await get(headgate, 'plain');
    assert.equal(refused.status, 405);
    const bare = (head: string) => head.replaceAll(/\r\nDate:[^\r]*/g, '');
    for (const path of [
      'unguarded',
      'github',
      'sms',
      'x_events',
      'x_events?crc_token=123',
      'meta?hub.mode=subscribe&hub.verify_token=b&hub.challenge=1',
      'slack?type=url_verification',
    ]) {
      const answer = await get(headgate, path);
      assert.deepEqual([bare(answer.head), answer.body], [bare(refused.head), refused.body], path);
    }
    // Of a path that names no table, a GET is told what a POST is told, and no more.
    for (const [path, status] of [
      ['none', 404],
      ['%zz', 400],
    ] as const) {
      const [posted, got] = [await post(path, '{}'), await get(headgate, path)];
      assert.deepEqual([posted.status, got.status, got.body], [status, status, posted.text], path);
    }
    const [preflight, own] = await raw(
      headgate,
      ask('OPTIONS', 'plain', 'Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n'),
      ask('OPTIONS', 'cloudevents', 'Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n'),
    );
    assert.equal(bare(own?.head ?? ''), bare(preflight?.head ?? ''));
    assert.equal(
      (await raw(headgate, ask('PUT', 'x_events?crc_token=abc', 'Content-Length: 0\r\n')))[0]?.status,
      405,
    );
    const large = `{"a":"${'x'.repeat(limits.handshakeBodyBytesMax)}"}`;
    assert.equal((await post('smartsheet', large, { 'smartsheet-hook-challenge': 'abc' })).status, 401);
  });

  await t.test('ANSWER defines the answer to a committed request', async () => {
    const event = '{"a":1}';
    const github = (name: string, body = event) =>
      post(name, body, { 'x-hub-signature-256': `sha256=${mac('Convoy', body)}` });
    const empty = await github('github');
    assert.deepEqual([empty.status, empty.text, empty.headers.get('content-type')], [200, '', null]);
    assert.equal(empty.headers.get('access-control-allow-origin'), null);
    assert.deepEqual(
      [(await github('github_batch', `${event}\n${event}`)).text, await rows(client, 'github_batch')],
      ['', 2],
    );
    assert.equal((await github('github_rows')).text, '{"rows":1}');
    const plain = await signed('plain', event);
    assert.deepEqual([plain.text, plain.headers.get('access-control-allow-origin')], ['{"rows":1}', '*']);
    const sms = await post('sms', 'a=1', { 'x-sig': mac('Convoy', 'a=1'), 'X-AdobeSign-ClientId': 'me' });
    assert.deepEqual(
      [sms.text, sms.headers.get('content-type'), sms.headers.get('x-adobesign-clientid')],
      ['<Response/>', 'text/xml; charset=utf-8', 'me'],
    );
    const nothing = await signed('nothing', event);
    assert.deepEqual([nothing.status, nothing.text, nothing.headers.get('content-length')], [204, '', null]);
    assert.equal((await post('nothing', event)).status, 401);
    // Discord has two protocols: an event of type 1 is an event.
    assert.equal((await signed('slack', '{"type":1}')).text, '{"type":1}');
    assert.equal((await signed('slack', '{"type":1,"event":{"a":1}}')).text, '{"rows":1}');
    assert.equal((await post('slack', '{"type":1}')).status, 401);
    assert.equal(await rows(client, 'slack'), 1);
  });

  await t.test('no ANSWER serves as a signing oracle', async () => {
    const forged = '{"for_user_id":"1","tweet_create_events":[{"id":1,"text":"forged"}]}';
    for (const body of [forged, '123', 'true', 'null', '"a"', '-1.5e3', '[]']) {
      const asked = await get(headgate, `x_events?crc_token=${encodeURIComponent(body)}`);
      assert.equal(asked.status, 405, body);
    }
    const token = 'hmacsha256=abc';
    const answer = JSON.parse(
      (await get(headgate, `x_events?crc_token=${encodeURIComponent(token)}`)).body,
    ) as { response_token: string };
    const replayed = await post('x_events', token, { 'x-twitter-webhooks-signature': answer.response_token });
    assert.equal(replayed.status, 422);
    assert.equal(await rows(client, 'x_events'), 0);
    const refused = async (sql: string, message: RegExp) => {
      await assert.rejects(client.query(sql), (error: Error & { position?: string }) => {
        assert.match(error.message, message);
        assert.ok(Number(error.position) > 0, sql);
        return true;
      });
    };
    await refused(
      table('o', `${x} ANSWER UNCHECKED WHEN method = 'GET' BODY ${crc("query->>'crc_token'")}`),
      /only through shaped/,
    );
    await refused(
      `ALTER TABLE x_events ANSWER SECRET s UNCHECKED WHEN method = 'GET' BODY ${crc("query->>'crc_token'")}`,
      /only through shaped/,
    );
    await refused(
      `ALTER TABLE sms ANSWER SECRET s UNCHECKED WHEN method = 'GET' BODY ${crc("shaped(query->>'a', 'token', 9)")}`,
      /may be any text/,
    );
    await refused(
      `ALTER TABLE plain ANSWER SECRET s UNCHECKED WHEN method = 'GET' AND secure_compare(query->>'v', s)`,
      /cannot be a verify token/,
    );
    await assert.rejects(
      client.query("ALTER TABLE unguarded ANSWER WHEN method = 'GET' BODY 'a'"),
      /needs a table with VALIDATE/,
    );
    // A statement that nobody could judge when it was given: another secret of the same value.
    await client.query("CREATE SECRET twin WITH (backend = 'meta') AS 'Convoy'");
    await client.query(`ALTER TABLE nothing ANSWER SECRET twin UNCHECKED WHEN method = 'GET' BODY twin`);
    await until(
      async () => {
        await get(headgate, 'nothing');
        return headgate.stderr;
      },
      (log) => log.includes('catalog.answer_unusable'),
    );
    assert.equal((await get(headgate, 'nothing')).status, 405);
    assert.equal((await signed('nothing', '{}')).status, 204);
  });

  await t.test('handshakes and POSTs alternate on one connection', async () => {
    const event = '{"a":1}';
    const row = `POST /webhook/dev/public/unguarded HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n${event}`;
    const answers = await raw(
      headgate,
      row,
      ask('HEAD', 'trello'),
      row,
      ask('GET', 'meta?hub.mode=subscribe&hub.verify_token=a+verify+token&hub.challenge=7'),
      ask('GET', 'plain'),
      row,
    );
    assert.deepEqual(
      answers.map((it) => [it?.status, it?.body.slice(0, 10)]),
      [
        [200, '{"rows":1}'],
        [200, ''],
        [200, '{"rows":1}'],
        [200, '7'],
        [405, '{"error":"'],
        [200, '{"rows":1}'],
      ],
    );
    assert.equal(await rows(client, 'unguarded'), 3);
  });

  await t.test(
    "handshakes are visible to the table's owner only, and are not kept as refused requests",
    async () => {
      const seen = await until(
        async () =>
          (
            await client.query<Record<string, unknown>>(
              "SELECT table_name, method, rule, status, outcome, remote_address FROM headgate.handshakes WHERE table_name = 'meta' ORDER BY id",
            )
          ).rows,
        (found) => found.length >= 2,
      );
      assert.deepEqual(seen[0], {
        table_name: 'meta',
        method: 'GET',
        rule: 1,
        status: 200,
        outcome: 'answered',
        remote_address: '127.0.0.1',
      });
      assert.deepEqual(seen[1], {
        table_name: 'meta',
        method: 'GET',
        rule: null,
        status: 405,
        outcome: 'unmatched',
        remote_address: '127.0.0.1',
      });
      await client.query('CREATE ROLE stranger LOGIN');
      const stranger = await headgate.clientAs(t, 'stranger');
      assert.equal(await rows(stranger, 'headgate.handshakes'), 0);
      await assert.rejects(stranger.query('SELECT sealed FROM headgate.webhook_answer'), /permission denied/);
      await assert.rejects(stranger.query('SELECT 1 FROM headgate.handshake_log'), /permission denied/);
      await assert.rejects(stranger.query("ALTER TABLE x_events ANSWER BODY 'a'"), /must be owner/);
      const { rows: kept } = await client.query<{ table_name: string }>(
        "SELECT DISTINCT table_name FROM headgate.rejected_requests WHERE table_name IN ('meta', 'cloudevents', 'trello')",
      );
      assert.deepEqual(kept, []);
      const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
      assert.match(
        metrics,
        /headgate_handshakes_total\{database="dev",schema="public",table="meta",outcome="answered"\} \d/,
      );
    },
  );

  await t.test(
    'SHOW CREATE TABLE prints ANSWER clauses that recreate the table, and their secrets cannot be dropped',
    async () => {
      const shown = async (name: string) =>
        String(
          ((await client.query<unknown[]>({ text: `SHOW CREATE TABLE ${name}`, rowMode: 'array' })).rows[0] ??
            [])[1],
        );
      for (const name of ['x_events', 'meta', 'slack', 'sms', 'cloudevents', 'github']) {
        const text = await shown(name);
        assert.match(text, /\nANSWER /);
        await client.query(text.replace(`public.${name} (`, `public.${name}_again (`));
        assert.equal((await shown(`${name}_again`)).replace(`${name}_again`, name), text);
      }
      assert.match(await shown('meta'), /ANSWER SECRET public\.verify UNCHECKED WHEN method = 'GET'/);
      await assert.rejects(client.query('DROP SECRET verify'), /other objects depend on it/);
      await client.query('DROP TABLE meta_again');
    },
  );

  await t.test('a changed ANSWER takes effect within a moment', async () => {
    await client.query("CREATE SECRET other WITH (backend = 'meta') AS 'one'");
    await client.query(
      "ALTER TABLE plain ANSWER SECRET other UNCHECKED WHEN secure_compare(query->>'v', other) AND method = 'GET' BODY 'first'",
    );
    await until(
      () => get(headgate, 'plain?v=one'),
      ({ body }) => body === 'first',
    );
    await client.query("ALTER SECRET other AS 'two'");
    await until(
      () => get(headgate, 'plain?v=two'),
      ({ status, body }) => status === 429 || body === 'first',
    );
    await client.query("ALTER TABLE plain ANSWER BODY 'a'; ALTER TABLE plain ANSWER STATUS 201 BODY 'b'");
    await until(
      () => signed('plain', '{}'),
      ({ status, text }) => status === 201 && text === 'b',
    );
    await client.query('ALTER TABLE plain DROP ANSWER; DROP SECRET other');
    await until(
      () => signed('plain', '{}'),
      ({ text }) => text === '{"rows":1}',
    );
    await until(
      () => get(headgate, 'plain?v=two'),
      ({ status }) => status === 405,
    );
    await client.query('CREATE TABLE ordinary (answer int); ALTER TABLE ordinary DROP answer');
  });

  await t.test('a flood of handshakes gets 429', async () => {
    const statuses = new Set<number>();
    for (let n = 0; n < limits.handshakesBurst + 5; n++)
      statuses.add((await get(headgate, 'x_events_again?crc_token=abc')).status);
    assert.deepEqual([...statuses], [200, 429]);
  });
});
