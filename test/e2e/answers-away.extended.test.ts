/** Handshakes while the engine hangs, and while it is gone: senders that ask every hour are answered, and nothing is stored. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { childrenOf } from '../../src/engine/server-processes.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { sampleOf } from '../support/sample.ts';
import { startServer } from '../support/server.ts';
import { signalAll } from '../support/signal-all.ts';
import { within } from '../support/within.ts';

const mac = (text: string, form: 'hex' | 'base64' = 'hex') =>
  createHmac('sha256', 'the consumer secret').update(text).digest(form);
const check =
  "VALIDATE SECRET s AS secure_compare(headers->>'x-sig', encode(hmac(s, payload, 'sha256'), 'hex'))";
const signs = (value: string) => `encode(hmac(s, convert_to(${value}, 'UTF8'), 'sha256'), 'base64')`;
const tables = `
  CREATE SECRET s WITH (backend = 'meta') AS 'the consumer secret';
  CREATE TABLE x (data JSONB) WITH (connector = 'webhook') ${check}
    ANSWER UNCHECKED WHEN method = 'GET' BODY ${signs("shaped(query->>'crc_token', 'token', 128)")};
  CREATE TABLE linkedin (data JSONB) WITH (connector = 'webhook') ${check}
    ANSWER UNCHECKED WHEN method = 'GET' BODY ${signs("shaped(query->>'challengeCode', 'uuid', 36)")};
  CREATE TABLE smartsheet (data JSONB) WITH (connector = 'webhook') ${check}
    ANSWER UNCHECKED WHEN method = 'POST' AND headers->>'smartsheet-hook-challenge' IS NOT NULL
      HEADER 'Smartsheet-Hook-Response' = shaped(headers->>'smartsheet-hook-challenge', 'token', 128);
  CREATE TABLE zoom (data JSONB) WITH (connector = 'webhook') ${check}
    ANSWER WHEN convert_from(payload, 'UTF8')::jsonb->>'event' = 'endpoint.url_validation'
      BODY convert_from(payload, 'UTF8')::jsonb->>'token'`;
const uuid = '890e4665-4dfe-4ab1-b689-ed553bceeed0';

/** 503 is the answer to what would have to be stored. */
async function events(headgate: Headgate): Promise<number> {
  const body = '{"event":"other"}';
  return (await headgate.post('postgres/public/zoom', body, { 'x-sig': mac(body) })).status;
}

async function handshakes(headgate: Headgate): Promise<void> {
  const url = `${headgate.webhookUrl}/postgres/public`;
  const got = async (path: string) => (await asked(`${url}/${path}`)).text;
  assert.equal(await got('x?crc_token=abc'), mac('abc', 'base64'));
  assert.equal(await got(`linkedin?challengeCode=${uuid}`), mac(uuid, 'base64'));
  const sheet = await headgate.post('postgres/public/smartsheet', '{}', { 'smartsheet-hook-challenge': 'c' });
  assert.deepEqual([sheet.status, sheet.headers.get('smartsheet-hook-response')], [200, 'c']);
  const question = '{"event":"endpoint.url_validation","token":"t"}';
  const zoom = await headgate.post('postgres/public/zoom', question, { 'x-sig': mac(question) });
  assert.deepEqual([zoom.status, zoom.text], [200, 't']);
  const forged = await headgate.post('postgres/public/zoom', question, { 'x-sig': mac('other') });
  assert.notEqual(forged.status, 200);
  assert.equal((await asked(`${url}/zoom`)).status, 405);
}

for (const listeners of sampleOf(['1', '2'], 1))
  test(`handshakes are answered while the engine is hung or stopped (listener processes: ${listeners})`, async (t) => {
    const server = await startServer();
    let stopped = false;
    onEnd(t, 'server', () => (stopped ? Promise.resolve() : server.close()));
    const headgate = await startHeadgate(t, {
      args: [
        `--database-url=postgresql://root@localhost/postgres?host=${encodeURIComponent(server.socketDir)}`,
      ],
      env: { HEADGATE_LISTENERS: listeners },
    });
    const client = await headgate.client(t, 'postgres');
    await client.query(tables);
    await within(5_000, () => handshakes(headgate));
    assert.equal(await events(headgate), 200);
    const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM zoom');
    assert.equal(rows[0]?.n, 1);

    const pids = [server.pid, ...(await childrenOf(server.pid))];
    signalAll(pids, 'SIGSTOP');
    try {
      await handshakes(headgate);
      assert.equal(await events(headgate), 503);
      // By now it is known that the engine does not answer.
      await within(15_000, async () =>
        assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 503),
      );
      await handshakes(headgate);
    } finally {
      signalAll(pids, 'SIGCONT');
    }
    await within(15_000, async () => assert.equal(await events(headgate), 200));

    stopped = true;
    await server.close();
    await handshakes(headgate);
    assert.equal(await events(headgate), 503);
    assert.equal((await asked(`${headgate.webhookUrl}/postgres/public/unknown`)).status, 405);
  });
