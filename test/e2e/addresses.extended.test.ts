import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';

const hasIpv6 = Object.values(networkInterfaces()).some((of) => of?.some(({ family }) => family === 'IPv6'));

test('the webhook listener accepts IPv4 and, if the machine has it, IPv6, but only the address of --listen-host', async (t) => {
  const open = await startHeadgate(t, { args: ['--listen-host=*'] });
  const client = await open.client(t);
  await client.query(
    `CREATE TABLE hooks (data JSONB) INCLUDE REMOTE ADDRESS AS sender WITH (connector = 'webhook')`,
  );
  const post = async (host: string, port: number) =>
    (await fetch(`http://${host}:${port}/webhook/dev/public/hooks`, { method: 'POST', body: '{}' })).status;
  const { port, host } = open.ports.listen;
  const hosts = hasIpv6 ? ['127.0.0.1', '[::1]'] : ['127.0.0.1'];
  for (const one of hosts) assert.equal(await post(one, port), 200, one);
  const { rows } = await client.query<{ sender: string }>(
    'SELECT host(sender) AS sender FROM hooks ORDER BY 1',
  );
  // As IPv4, not as an address of IPv6 that stands for it.
  assert.deepEqual(
    rows.map(({ sender }) => sender),
    hosts.map((one) => one.replaceAll(/[[\]]/g, '')),
  );
  assert.equal(host, hasIpv6 ? '::' : '0.0.0.0');
  if (hasIpv6)
    assert.match(open.stdout, /webhooks {2}http:\/\/\[::\]:\d+\/webhook\/.* {2}\(IPv6 and IPv4\)\n/);

  const one = await startHeadgate(t, { args: ['--listen-host=127.0.0.1'] });
  await assert.rejects(post('[::1]', one.ports.listen.port));
});
