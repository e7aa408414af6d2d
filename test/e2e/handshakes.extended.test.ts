/** Every sender's questions to a running program, asked and judged as the sender does; and what is published of them. */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { askOne, roundsOf } from '../../src/senders/send-handshake.ts';
import type { HandshakeSender } from '../../src/senders/send-handshake.ts';
import { senderPage } from '../../src/senders/sender-page.ts';
import { SendClient } from '../../src/senders/send-client.ts';
import type { HandshakeQuery, Sender } from '../../src/senders/sender.ts';
import { senders } from '../../src/senders/senders.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { createSenderTable, publicUrl, send } from '../support/senders.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const learns = ({ answers }: Sender) =>
  answers({ secret: 's', answer: 't' }).some((clause) => clause.includes(' LEARN '));
const asking = [...senders.values()].filter((it) => it.questions.length > 0 && !learns(it));
const signal = new AbortController().signal;
type Fields = Readonly<Record<string, string>>;

/** What is wrong on purpose wants a refusal, and is one. */
const isWrong = (what: string) => /wrong|not subscribed to/.test(what);

const answerKeyOf = ({ id, answerSecret }: Sender) =>
  answerSecret === null
    ? null
    : /^(websub|youtube)$/.test(id)
      ? 'https://blog.example/feed?a=1&b=2'
      : 'a-second-secret-of-32-characters';

async function countOf(client: Client, from: string): Promise<number> {
  const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${from}`);
  return rows[0]?.n ?? -1;
}

test('handshakes of senders are answered, and only by their own tables', async (t) => {
  const headgate = await startHeadgate(t, { args: [`--public-url=${publicUrl}`] });
  const client = await headgate.client(t);
  const http = new SendClient();
  onEnd(t, 'client', () => http.close());
  const urlOf = (table: string) => `${headgate.webhookUrl}/dev/public/${table}`;
  const put = (asked: HandshakeQuery) => http.send(asked, signal);
  const get = (table: string, fields: Readonly<Record<string, string>>): HandshakeQuery => ({
    method: 'GET',
    url: `${urlOf(table)}?${new URLSearchParams(fields).toString()}`,
    headers: {},
    body: Buffer.alloc(0),
  });
  const post = (table: string, headers: Readonly<Record<string, string>>, body: string): HandshakeQuery => ({
    method: 'POST',
    url: urlOf(table),
    headers,
    body: Buffer.from(body),
  });

  t.diagnostic(sampleSeed);
  const tried = new Set([...sampleOf(asking, 4), senders.get('zoom') ?? assert.fail()]);
  for (const sender of tried) {
    await t.test(
      `handshakes of ${sender.id} are answered, its signed request is stored, and a forged one gets 401`,
      async () => {
        const table = `h_${sender.id}`;
        const keys = sender.makeSecret(randomBytes);
        const answerKey = answerKeyOf(sender);
        await createSenderTable(client, table, sender.id, keys.secret, answerKey);
        const asker: HandshakeSender = {
          sender,
          url: urlOf(table),
          signedUrl: `${publicUrl}/webhook/dev/public/${table}`,
          signingKey: keys.signingKey,
          answerKey: answerKey ?? '',
          headers: new Map(),
        };
        const ask = async (by: HandshakeSender) => {
          const rounds = roundsOf(by, randomBytes(16).toString('hex'), Date.now());
          return Promise.all(
            rounds.map(async (round) => ({
              what: round.question.what,
              ...(await askOne(round, http, () => performance.now(), signal)),
            })),
          );
        };
        let answered = 0;
        for (const { what, answer, wrong } of await ask(asker)) {
          assert.equal(wrong, null, what);
          assert(answer.bytes <= 1024, `${answer.bytes} bytes`);
          if (isWrong(what) && answer.status !== 404) continue;
          // Xero's is a delivery like any other.
          if (sender.id === 'xero') continue;
          answered++;
          assert.equal(answer.headers['x-content-type-options'], 'nosniff');
          assert.equal(answer.headers['access-control-allow-origin'], undefined);
        }
        assert.equal(await countOf(client, table), sender.id === 'xero' ? 1 : 0);

        const other = {
          ...asker,
          signingKey: sender.makeSecret(randomBytes).signingKey,
          answerKey: 'another',
        };
        const rules = sender
          .answers({ secret: 's', answer: 't' })
          .filter((clause) => clause.includes(' WHEN '));
        if (answerKey !== null || rules.every((clause) => !clause.includes(' UNCHECKED')))
          for (const { what, wrong } of await ask(other))
            if (!isWrong(what)) assert.notEqual(wrong, null, what);
        assert.equal(await countOf(client, table), sender.id === 'xero' ? 1 : 0);

        const request = { sender: sender.id, url: asker.url, signedUrl: asker.signedUrl };
        const stored = await send({ ...request, secret: keys.signingKey });
        assert.equal(stored.code, 0, stored.printed);
        const committed = sender
          .answers({ secret: 's', answer: null })
          .find((clause) => !clause.includes(' WHEN '));
        if (committed === undefined) assert.equal(stored.printed, 'HTTP 200\n');
        assert.equal(await countOf(client, table), sender.id === 'xero' ? 2 : 1);
        assert.match((await send({ ...request, secret: other.signingKey })).printed, /^HTTP 401\n/);

        await within(10_000, async () => {
          const told = `headgate.handshakes WHERE table_name = '${table}' AND outcome = 'answered'`;
          assert((await countOf(client, told)) >= answered);
        });
        // What was refused is there with its reason; what was answered is not.
        const { rows } = await client.query<{ status: number }>(
          `SELECT DISTINCT status FROM headgate.rejected_requests WHERE table_name = '${table}'`,
        );
        assert.deepEqual(
          rows.filter(({ status }) => status !== 401),
          [],
        );
      },
    );
  }

  await t.test(
    'headgate websub subscribes at a hub, and the table confirms its own topic and stores deliveries',
    async () => {
      const topic = 'https://blog.example/feed?a=1&b=2';
      await createSenderTable(client, 'w_feed', 'websub', 'a key of the subscriber', topic);
      let subscribed = new URLSearchParams();
      const hub = createServer((request, response) => {
        void text(request).then((body) => {
          subscribed = new URLSearchParams(body);
          response.writeHead(202).end();
        });
      });
      hub.listen(0, '127.0.0.1');
      await once(hub, 'listening');
      onEnd(t, 'hub', () => {
        hub.close();
        hub.closeAllConnections();
      });
      const at = `http://127.0.0.1:${(hub.address() as AddressInfo).port}/`;
      const args = [
        '--hub',
        at,
        '--callback',
        urlOf('w_feed'),
        '--secret',
        'a key of the subscriber',
        '--once',
      ];
      const ran = await run(process.execPath, [cli, 'websub', topic, ...args]);
      assert.deepEqual([ran.code, ran.stderr], [0, '']);
      const asks = (topic: string) =>
        put(get('w_feed', { 'hub.mode': 'subscribe', 'hub.topic': topic, 'hub.challenge': 'c-1' }));
      const meant = await asks(subscribed.get('hub.topic') ?? '');
      assert.deepEqual([meant.status, meant.body], [200, 'c-1']);
      assert.equal((await asks('https://blog.example/another')).status, 405);
      const entry = '<feed><entry/></feed>';
      const key = subscribed.get('hub.secret') ?? '';
      const signature = `sha256=${createHmac('sha256', key).update(entry).digest('hex')}`;
      assert.equal(subscribed.get('hub.callback'), urlOf('w_feed'));
      assert.equal((await put(post('w_feed', { 'X-Hub-Signature': signature }, entry))).status, 200);
      assert.equal(await countOf(client, 'w_feed'), 1);
    },
  );

  await t.test('a stored request is answered as its sender expects', async () => {
    const wanted: readonly (readonly [string, string])[] = [
      ['discord', 'HTTP 204\n'],
      ['discord_interactions', 'HTTP 200\n{"type":5}\n'],
      ['fitbit', 'HTTP 204\n'],
      ['vk', 'HTTP 200\nok\n'],
      ['lark', 'HTTP 200\n{}\n'],
      ['slack', 'HTTP 200\n'],
      ['salesforce', 'HTTP 200\n<soapenv:Envelope '],
      ['twilio_form', 'HTTP 200\n<Response/>\n'],
      ['adyen', 'HTTP 200\n[accepted]\n'],
      ['github', 'HTTP 200\n'],
    ];
    for (const [sender, beginning] of wanted) {
      const table = `c_${sender}`;
      const { secret, signingKey } = (senders.get(sender) ?? assert.fail()).makeSecret(randomBytes);
      await createSenderTable(client, table, sender, secret);
      const { printed } = await send({
        sender,
        url: urlOf(table),
        signedUrl: `${publicUrl}/webhook/dev/public/${table}`,
        secret: signingKey,
      });
      assert(printed.startsWith(beginning), `${sender}: ${printed}`);
    }
    const id = 'CBJCHBCAABAAo8FEKDDS';
    await createSenderTable(client, 'c_acrobat', 'acrobat_sign', id);
    const echoed = await put(
      post('c_acrobat', { 'X-AdobeSign-ClientId': id }, '{"webhookNotificationId":"1"}'),
    );
    assert.deepEqual([echoed.status, echoed.headers['x-adobesign-clientid']], [200, id]);
    assert.equal(echoed.headers['access-control-allow-origin'], undefined);
  });

  await t.test('published examples of challenges get the published answers', async () => {
    const published: readonly (readonly [
      string,
      string,
      string | null,
      Readonly<Record<string, string>>,
      string,
    ])[] = [
      [
        'x',
        'Convoy',
        null,
        { crc_token: 'uzwcfYtzr9' },
        '{"response_token":"sha256=HXvxTdsfShG6k2zC9NVANwFquJBdOugRYHax2vNiiOo="}',
      ],
      [
        'linkedin',
        'linkedin-client-secret',
        null,
        { challengeCode: '890e4665-4dfe-4ab1-b689-ed553bceeed0' },
        '{"challengeCode":"890e4665-4dfe-4ab1-b689-ed553bceeed0","challengeResponse":"e9567c49fee6d803311de224f2be5dc1b7f61cae1810ae05866223f4caa1724f"}',
      ],
      [
        'ebay',
        (senders.get('ebay') ?? assert.fail()).makeSecret(randomBytes).secret,
        '71745723-d031-455c-bfa5-f90d11b4f20ahttp://www.testendpoint.com/webhook',
        { challenge_code: '71745723-d031-455c-bfa5-f90d11b4f20a' },
        '{"challengeResponse":"048de9ffd0e35021fefc0388d5c52e0f475324f582f3778ca81a53354ccbbc97"}',
      ],
      [
        'braintree',
        '{"public_key":"integration_public_key","private_key":"integration_private_key"}',
        'integration_public_key',
        { bt_challenge: '20f9f8ed05f77439fe955c977e4c8a53' },
        'integration_public_key|d9b899556c966b3f06945ec21311865d35df3ce4',
      ],
    ];
    for (const [sender, secret, answerKey, fields, body] of published) {
      await createSenderTable(client, `v_${sender}`, sender, secret, answerKey);
      const answer = await put(get(`v_${sender}`, fields));
      assert.deepEqual([answer.status, answer.body], [200, body], sender);
    }
    // Signed with times of long ago: what was published is refused for its age, and for nothing else.
    await createSenderTable(client, 'v_mandrill', 'mandrill', 'test-webhook');
    await createSenderTable(client, 'v_xero', 'xero', 'k');
    const intent = '{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4Nd0mt3xt"}';
    const xero = (signature: string) => put(post('v_xero', { 'x-xero-signature': signature }, intent));
    const right = await xero('ceY22H/kPREqyS4H5Be6oOCaQ/Z3Zi/uJ6FaRx2YS5k=');
    assert.deepEqual([right.status, right.body], [200, '']);
    assert.equal((await xero('deY22H/kPREqyS4H5Be6oOCaQ/Z3Zi/uJ6FaRx2YS5k=')).status, 401);
  });

  await t.test('handshake answers do not serve as signing oracles', async () => {
    const forged = '{"for_user_id":"2244994945","tweet_create_events":[{"id":1,"text":"forged"}]}';
    for (const body of [forged, '123', 'true', '1e5', '-1']) {
      const { status, body: shown } = await put(get('v_x', { crc_token: body }));
      assert.equal(status, 405, shown);
    }
    assert.equal(
      (await put(get('v_linkedin', { challengeCode: 'hmacsha256={"type":"LEAD_ACTION"}' }))).status,
      405,
    );
    const challenge = '20f9f8ed05f77439fe955c977e4c8a53';
    const { body: signature } = await put(get('v_braintree', { bt_challenge: challenge }));
    const form = new URLSearchParams({ bt_signature: signature, bt_payload: challenge }).toString();
    assert.equal((await put(post('v_braintree', {}, form))).status, 401);
    // What is answered, sent back as an event that is signed by it.
    const token = 'hmacsha256=abc';
    const { response_token: crc = '' } = JSON.parse(
      (await put(get('v_x', { crc_token: token }))).body,
    ) as Fields;
    assert.equal((await put(post('v_x', { 'x-twitter-webhooks-signature': crc }, token))).status, 422);
    const code = '890e4665-4dfe-4ab1-b689-ed553bceeed0';
    const linkedIn = await put(get('v_linkedin', { challengeCode: code }));
    const { challengeResponse = '' } = JSON.parse(linkedIn.body) as Fields;
    for (const body of [code, `hmacsha256=${code}`])
      assert.notEqual(
        (await put(post('v_linkedin', { 'x-li-signature': challengeResponse }, body))).status,
        200,
      );
    // Zoom's is asked by Zoom alone: what nobody has signed is not answered.
    const event = 'v0:1700000000:{"event":"meeting.ended"}';
    const zoom = JSON.stringify({ event: 'endpoint.url_validation', payload: { plainToken: event } });
    const stored = await countOf(client, 'h_zoom');
    const asked = await put(post('h_zoom', {}, zoom));
    assert.deepEqual([asked.status, asked.body.includes('encryptedToken')], [401, false]);
    assert.deepEqual(
      await Promise.all(
        ['v_x', 'v_linkedin', 'v_braintree', 'h_zoom'].map((table) => countOf(client, table)),
      ),
      [0, 0, 0, stored],
    );
  });

  await t.test(
    'the documented SQL of Asana, Clio and Notion learns the first secret and no later one',
    async () => {
      const sqlOf = (sender: string) =>
        /```sql\n([^`]*)```/.exec(senderPage(senders.get(sender) ?? assert.fail()))?.[1] ?? assert.fail();
      for (const sender of ['asana', 'clio', 'notion']) await client.query(sqlOf(sender));
      const secret = 'b537207f20cbfa02357cf448134da559';
      const brought = (by: string) => put(post('asana_events', { 'X-Hook-Secret': by }, '{}'));
      await within(5_000, async () => {
        const { status, headers, body } = await brought(secret);
        assert.deepEqual([status, headers['x-hook-secret'], body], [200, secret, '']);
      });
      const late = await brought('a-stranger-who-came-later');
      assert.deepEqual([late.status, late.headers['x-hook-secret']], [401, undefined]);
      assert.equal(
        (await send({ sender: 'asana', url: urlOf('asana_events'), secret })).printed,
        'HTTP 200\n',
      );

      const token = (text: string) =>
        put(post('notion_events', {}, JSON.stringify({ verification_token: text })));
      await within(5_000, async () => assert.equal((await token('secret_of_notions_choice')).status, 200));
      assert.equal((await token('secret_of_somebody_elses')).status, 401);
      const notion = { sender: 'notion', url: urlOf('notion_events'), secret: 'secret_of_notions_choice' };
      assert.equal((await send(notion)).printed, 'HTTP 200\n');
      // As the command plays it: what it brings is the secret from then on.
      const clio = { sender: 'clio', url: urlOf('clio_events'), secret: 'a-key-of-clio-with-32-characters' };
      await within(5_000, async () => {
        const { code, printed } = await send({ ...clio, handshake: true });
        assert.equal(code, 0, printed);
      });
      assert.equal((await send(clio)).printed, 'HTTP 200\n');
      const contested = await send({ ...clio, secret: 'a-key-of-a-stranger-who-is-late', handshake: true });
      assert.deepEqual([contested.code, /wrong: /.test(contested.printed)], [1, true]);
      // A handshake is no row.
      assert.deepEqual(
        [await countOf(client, 'asana_events'), await countOf(client, 'notion_events')],
        [1, 1],
      );
    },
  );
});
