/** Why VALIDATE has refused a request stands in its row, for the owner of the table, and nothing that is a credential. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

interface Row {
  readonly reason: string;
  readonly headers_left_out: readonly string[];
  readonly headers_masked: Readonly<Record<string, string>>;
}

async function rejected(client: Client, table: string, count: number): Promise<readonly Row[]> {
  let found: readonly Row[] = [];
  await within(10_000, async () => {
    const sql = 'select * from headgate.rejected_requests where table_name = $1 order by id';
    ({ rows: found } = await client.query<Row>(sql, [table]));
    assert.equal(found.length, count);
  });
  return found;
}

const shared = sharedHeadgate();
const failed = 'Signature verification failed';

suite('refused requests have reasons', () => {
  test('refusal reasons name the first condition that was not true', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`
      CREATE SECRET s WITH (backend = 'meta') AS 'the-key';
      CREATE TABLE gh (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING github;
      CREATE TABLE sl (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING slack;
      CREATE TABLE ws (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING github;
      CREATE TABLE br (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING bearer;
      CREATE TABLE qu (data JSONB) WITH (connector = 'webhook')
        VALIDATE SECRET s AS query->>'who' = 'me' AND (headers->>'x-n')::int > 0 AND secure_compare(headers->>'x-key', s)`);
    const post = (path: string, headers: Record<string, string>) =>
      headgate.post(`dev/public/${path}`, '{"a":1}', headers);
    const proof = createHmac('sha256', 'other').update('{"a":1}').digest('hex');
    await post('gh', {});
    await post('gh', { 'X-Hub-Signature-256': `sha256=${proof}` });
    await post('gh', { 'X-Hub-Signature-256': proof });
    const answer = await post('gh', { 'X-Hub-Signature-256': '' });
    assert.equal(answer.text, '{"error":"Signature verification failed","code":"signature_failed"}');
    const rows = await rejected(client, 'gh', 4);
    assert.equal(rows[0]?.reason, `${failed}: header 'x-hub-signature-256' is missing`);
    assert.match(
      rows[1]?.reason ?? '',
      /: the signature differs: header 'x-hub-signature-256' is not .* \(another secret, or other bytes than those that were signed\)$/,
    );
    assert.match(rows[2]?.reason ?? '', /: the signature differs: header .* does not begin with 'sha256='$/);
    assert.equal(rows[3]?.reason, `${failed}: header 'x-hub-signature-256' is empty`);
    assert.equal(rows[1]?.headers_masked['x-hub-signature-256'], 'sha256=… (71 characters)');
    assert(!JSON.stringify(rows).includes(proof));

    await post('sl', { 'X-Slack-Request-Timestamp': '1000000000', 'X-Slack-Signature': 'v0=00' });
    const [late] = await rejected(client, 'sl', 1);
    assert.match(late?.reason ?? '', /: the clock is outside the tolerance: .* is \d{9}\.\d+\)$/);
    assert.equal(late?.headers_masked['x-slack-request-timestamp'], '1000000000');

    const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/ws`;
    const ws = await WsClient.open(url);
    onEnd(t, 'WebSocket', async () => void (await ws.kill()));
    await ws.ended;
    const [stream] = await rejected(client, 'ws', 1);
    assert.equal(stream?.reason, `${failed}: header 'x-hub-signature-256' is missing`);

    // What a stranger has sent may be the credential of another system.
    await post('br', { Authorization: 'Bearer somebodys-token' });
    await post('br', { Authorization: 'somebodys-token' });
    const [bearer, bare] = await rejected(client, 'br', 2);
    assert.match(bearer?.reason ?? '', /: the key differs: header 'authorization' is not /);
    assert.equal(bearer?.headers_masked['authorization'], 'Bearer … (22 characters)');
    assert.equal(bare?.headers_masked['authorization'], '… (15 characters)');
    assert.doesNotMatch(JSON.stringify([bearer, bare]), /somebodys|the-key/);
    await post('qu?who=somebodys-token', {});
    await post('qu?who=me', { 'x-n': 'somebodys-token' });
    const asked = await rejected(client, 'qu', 2);
    assert.match(asked[0]?.reason ?? '', /is false \(.*\*{8}/);
    assert.match(asked[1]?.reason ?? '', /raised 22P02: invalid input syntax for type integer$/);
    assert.doesNotMatch(JSON.stringify(asked), /somebodys/);
  });

  test('refusal reasons are not computed from a truncated body', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`
      CREATE SECRET cut_key WITH (backend = 'meta') AS 'the-key';
      CREATE TABLE cut (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET cut_key USING github`);
    // The body of one is larger than what is kept of it.
    await headgate.post('dev/public/cut', JSON.stringify('x'.repeat(70_000)), {
      'X-Hub-Signature-256': 'sha256=00',
    });
    assert.equal((await rejected(client, 'cut', 1))[0]?.reason, failed);
    await headgate.post('dev/public/cut', '{}');
    assert.match((await rejected(client, 'cut', 2))[1]?.reason ?? '', /is missing$/);
  });
});
