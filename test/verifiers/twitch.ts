/**
 * Twitch's own command line tool (`twitch`, built from its public source; its path is in HEADGATE_TWITCH_CLI) as the sender: it asks what
 * Twitch asks and says what Twitch would make of the answer, and it sends events. `npm run test:verifiers`.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { senders } from '../../src/senders/senders.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { createSenderTable } from '../support/senders.ts';

const tool = process.env['HEADGATE_TWITCH_CLI'] ?? assert.fail('HEADGATE_TWITCH_CLI is not set');

test("Twitch's command line tool accepts the answer to its challenge, and its events are stored", async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  const known = senders.get('twitch') ?? assert.fail();
  const { secret } = known.makeSecret(randomBytes);
  await createSenderTable(client, 'streams', 'twitch', secret);
  const home = await temporaryFolder(t);
  const twitch = async (what: readonly string[], by: string) => {
    const to = ['-F', `${headgate.webhookUrl}/dev/public/streams`, '-s', by, '--no-config'];
    const { stdout, stderr } = await run(tool, ['event', ...what, ...to], {
      env: { PATH: process.env['PATH'], HOME: home },
    });
    return stdout + stderr;
  };
  const rows = async () => {
    const found = await client.query<{ type: string }>(
      `SELECT data->'subscription'->>'type' AS type FROM streams ORDER BY 1`,
    );
    return found.rows.map(({ type }) => type);
  };
  const other = known.makeSecret(randomBytes).secret;

  for (const event of ['stream.online', 'channel.follow', 'drop.entitlement.grant']) {
    const taken = await twitch(['verify-subscription', event], secret);
    assert.match(taken, /Valid response\. Received challenge/);
    assert.match(taken, /Valid content-type header\. Received type text\/plain/);
    assert.match(taken, /Valid status code\. Received status 200/);
    assert.doesNotMatch(taken, /Invalid/);
    assert.match(await twitch(['verify-subscription', event], other), /Invalid status code\. Received 401/);
  }
  assert.deepEqual(await rows(), []);

  for (const event of ['stream.online', 'channel.follow']) {
    assert.match(await twitch(['trigger', event], secret), /Received Status Code: 200/);
    assert.match(await twitch(['trigger', event], other), /Received Status Code: 401/);
  }
  assert.deepEqual(await rows(), ['channel.follow', 'stream.online']);
});
