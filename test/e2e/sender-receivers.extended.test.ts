/** A sender's own receiver, asked by our side of its handshake: so the question is one that real receivers know. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import bolt from '@slack/bolt';
import { SendClient } from '../../src/senders/send-client.ts';
import { askOne, roundsOf } from '../../src/senders/send-handshake.ts';
import { senders } from '../../src/senders/senders.ts';
import { onEnd } from '../support/cleanup.ts';

test("Slack's own receiver answers the handshake of headgate send, and refuses one signed with another secret", async (t) => {
  const signingSecret = randomBytes(16).toString('hex');
  const receiver = new bolt.HTTPReceiver({ signingSecret, logLevel: bolt.LogLevel.ERROR });
  void new bolt.App({ receiver, authorize: () => Promise.resolve({}) });
  const server = await receiver.start(0);
  const client = new SendClient();
  onEnd(t, 'receiver', async () => {
    client.close();
    await receiver.stop();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/slack/events`;
  const sender = senders.get('slack') ?? assert.fail();
  for (const [signingKey, wanted] of [
    [signingSecret, null],
    ['another', 'the status is 401, but must be 200'],
  ] as const) {
    const asker = { sender, url, signedUrl: url, signingKey, answerKey: '', headers: new Map() };
    const [round = assert.fail()] = roundsOf(asker, randomBytes(16).toString('hex'), Date.now());
    const { wrong } = await askOne(round, client, () => 0, new AbortController().signal);
    assert.equal(wrong, wanted);
  }
});
