/** Requests that real senders signed (test/vectors.json), put to the expressions of `USING`. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { publicUrlOf, requestOf, vectors } from '../../test/support/vectors.ts';
import type { Vector } from '../../test/support/vectors.ts';
import { compileCheck } from '../validate/compile.ts';
import { loadParser, parseExpression } from '../validate/expression.ts';
import { expressionOf, senders } from './senders.ts';

await loadParser();

/** Provider, or provider and the beginning of the scheme → sender. Null: no sender of ours, with the reason. */
const senderOf: Readonly<Record<string, string | null>> = {
  'AWS EventBridge': 'aws_eventbridge',
  'Adyen (banking/management)': 'adyen_banking',
  'Adyen (payments)': 'adyen',
  'Bitbucket Cloud': 'bitbucket',
  'Bitbucket Server': 'bitbucket',
  'Cal.com': 'cal_com',
  // Loops over the list of signed headers.
  Contentful: null,
  // The same key in base64.
  'Convoy (generic HMAC-SHA512): hmac-sha512-base64': null,
  'Convoy (generic HMAC-SHA512)': 'convoy',
  'HubSpot: v1': 'hubspot_v1',
  'HubSpot: v2': 'hubspot_v2',
  'HubSpot: v3': 'hubspot',
  'Jira Cloud': 'jira',
  'Meta (Facebook, Instagram, WhatsApp)': 'meta',
  // Compares every item of a list.
  'Microsoft Graph': null,
  // Not senders: the functions themselves.
  'RisingWave hmac() unit vector': null,
  'Stripe HMAC unit vector': null,
  'Standard Webhooks: standard-webhooks v1 + v1a': 'standard_webhooks_ed25519',
  'Standard Webhooks': 'standard_webhooks',
  'Svix: standard-webhooks v1a': 'svix_ed25519',
  'Twilio: hmac-sha1-base64 of url + sorted form': 'twilio_form',
  Twilio: 'twilio',
  'X (Twitter) Account Activity': 'x',
  // The order of an older page of theirs.
  'Zendesk: hmac-sha256-base64 of body+timestamp (ORDER OF THE OLD DOCS': null,
};

function senderIdOf({ provider, scheme }: Vector): string | null {
  const key = Object.keys(senderOf).find((it) => it === provider || `${provider}: ${scheme}`.startsWith(it));
  if (key !== undefined) return senderOf[key] ?? null;
  return provider.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_');
}

test('a sender page claims a signed request published by the vendor only where test/vectors.json has one', () => {
  const published = vectors.filter(({ source }) => !/^(signed with|generated with)/.test(source));
  const has = new Set(published.map(senderIdOf));
  for (const { id, evidence } of senders.values())
    if (
      Object.values(evidence)
        .flat()
        .some((source) => 'vector' in source)
    )
      assert(has.has(id), `${id}: test/vectors.json has none`);
});

test('every test vector of a sender is accepted by its expression, and refused with another secret', () => {
  const seen = new Set<string>();
  for (const vector of vectors) {
    const id = senderIdOf(vector);
    if (id === null) continue;
    const sender = senders.get(id) ?? assert.fail(`${vector.provider}: ${vector.scheme} has no sender`);
    seen.add(id);
    const parsed = parseExpression(expressionOf(sender, 's'), { secrets: ['s'] });
    const accepts = (secret: string, change: (body: Buffer) => Buffer = (body) => body) => {
      const request = requestOf(vector);
      const compiled = compileCheck(parsed, {
        secrets: new Map([['s', secret]]),
        publicUrl: publicUrlOf(vector),
      });
      return compiled({ ...request, body: change(request.body) });
    };
    assert.equal(accepts(vector.secret), true, `${vector.id} as ${id}`);
    const middle = Math.floor(vector.secret.length / 2);
    const other = vector.secret[middle] === 'Q' ? 'R' : 'Q';
    // Most of a certificate is not its key.
    const wrong = vector.secret.includes('BEGIN CERTIFICATE')
      ? sender.makeSecret(randomBytes).secret
      : vector.secret.slice(0, middle) + other + vector.secret.slice(middle + 1);
    assert.equal(accepts(wrong), false, vector.id);
    if (sender.signsBody)
      assert.equal(
        accepts(vector.secret, (body) => Buffer.concat([body, Buffer.from(' ')])),
        false,
      );
  }
  assert(seen.size >= 40, String(seen.size));
});
