/** Networks, proxies and rates on the listener of the real program. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient } from '../support/raw-http.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';

const table = (name: string) => `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook')
  VALIDATE AS secure_compare(headers->>'signature', 'test')`;

async function ask(headgate: Headgate, forwarded: string | null, name = 't', extra = ''): Promise<string> {
  const client = await RawClient.connect(headgate.ports.listen.port);
  const header = forwarded === null ? '' : `X-Forwarded-For: ${forwarded}\r\n`;
  // The body never comes: whoever is refused is refused before it is read.
  client.send(
    `POST /webhook/dev/public/${name} HTTP/1.1\r\nHost: h\r\n${header}${extra}signature: test\r\nContent-Length: 2\r\n\r\n`,
  );
  if (extra === '') client.send('{}');
  const answer = await client.answer();
  client.destroy();
  const retry = /^Retry-After: (\d+)$/im.exec(answer?.head ?? '')?.[1];
  const code = /"code":"(\w+)"/.exec(answer?.body ?? '')?.[1];
  return [answer?.status, code, retry].filter((it) => it !== undefined).join(' ');
}

test('allowed networks and rates count for each client address behind a trusted proxy', async (t) => {
  const headgate = await startHeadgate(t, {
    env: {
      HEADGATE_TRUSTED_PROXIES: '127.0.0.0/8',
      HEADGATE_LISTEN_NETWORKS: '198.51.100.0/24, 2001:db8::/32',
      HEADGATE_ADDRESS_RATE: '2/h',
      HEADGATE_TABLE_RATE: '3/h',
      HEADGATE_LOG_LEVEL: 'debug',
    },
  });
  await (await headgate.client(t)).query(`${table('t')}; ${table('u')}`);
  assert.equal(await ask(headgate, null), '403 address_refused');
  assert.equal(await ask(headgate, '192.0.2.1'), '403 address_refused');
  assert.equal(await ask(headgate, '198.51.100.1, 192.0.2.1'), '403 address_refused');
  assert.equal(await ask(headgate, '192.0.2.1, 198.51.100.1'), '200');
  assert.equal(await ask(headgate, '192.0.2.2, 198.51.100.1:99'), '200');
  const waits = Number(
    (await ask(headgate, '198.51.100.1', 't', 'X: 1\r\n')).replace('429 rate_limited ', ''),
  );
  assert.ok(waits > 1_700 && waits <= 1_800, String(waits));
  assert.equal(await ask(headgate, '[2001:db8::1]'), '200');
  assert.match(await ask(headgate, '2001:db8::2', 't', 'X: 1\r\n'), /^429 rate_limited 1[12]\d\d$/);
  assert.match(await ask(headgate, '2001:db8::3', 'u'), /^429 rate_limited/);
  assert.equal(await ask(headgate, '198.51.100.9', 'u'), '200');
  assert.equal(await ask(headgate, '198.51.100.9', 'none'), '404 not_found');
  assert.match(headgate.stderr, /"code":"committed","rows":1,"remoteAddress":"198\.51\.100\.1"/);
  const { rows } = await (await headgate.client(t)).query<{ n: number }>('select count(*)::int as n from t');
  assert.equal(rows[0]?.n, 3);
});

test('forwarding headers of untrusted peers are ignored', async (t) => {
  const headgate = await startHeadgate(t, {
    env: { HEADGATE_LISTEN_NETWORKS: '198.51.100.0/24', HEADGATE_TRUSTED_PROXIES: '10.0.0.0/8' },
  });
  assert.equal(await ask(headgate, '198.51.100.1'), '403 address_refused');
});
