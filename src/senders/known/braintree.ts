/** Braintree. */
import { ran } from '../evidence.ts';
import { createHash } from 'node:crypto';
import { hmac, utf8 } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, formType, same, sender } from '../sender.ts';
import { formNote } from '../signed-url.ts';
import { isoTime, mac } from '../signing.ts';

export const braintree: Sender = sender('A signature of the URL or of fields', {
  id: 'braintree',
  secretForm: forms.keyPair,
  name: 'Braintree',
  headers: [],
  signatureHeader: null,
  secret: {
    what: 'JSON that contains both keys: `{"public_key": "…", "private_key": "…"}`',
    where: 'Settings → API → Keys',
  },
  evidence: { signature: ran('braintree'), handshake: ran('braintree'), secret: ran('braintree') },
  steps: ['Open Settings → API → Webhooks → Create new webhook with the URL of the table.'],
  notes: [formNote],
  contentType: formType,
  expression: (s) =>
    // Pairs of a public key and a signature; only the owner of the private key can make such a signature.
    `secure_compare_any(\n  ${hmac(`sha1(convert_to(${s}::jsonb->>'private_key', 'UTF8'))`, utf8(`form(payload)->>'bt_payload'`), 'sha1', 'hex')},\n  ` +
    // A challenge has at most 32 characters, and what is signed for a challenge must never pass for an event.
    `string_to_array(replace(form(payload)->>'bt_signature', '&', '|'), '|'))\n  AND length(form(payload)->>'bt_payload') > 64`,
  sign: ({ body, signingKey }) => {
    const keys = JSON.parse(signingKey) as { public_key: string; private_key: string };
    const payload = new URLSearchParams(body.toString()).get('bt_payload') ?? '';
    const key = createHash('sha1').update(keys.private_key).digest();
    const signature = `${keys.public_key}|${mac('sha1', key, 'hex', payload)}`;
    return {
      headers: {},
      body: Buffer.from(new URLSearchParams({ bt_signature: signature, bt_payload: payload }).toString()),
    };
  },
  makeSecret: (random) =>
    same(JSON.stringify({ public_key: random(8).toString('hex'), private_key: random(16).toString('hex') })),
  example: ({ id, nowMs }) => {
    const xml = `<notification><kind>check</kind><timestamp type="datetime">${isoTime(nowMs)}</timestamp><subject><id>${id}</id></subject></notification>`;
    return new URLSearchParams({ bt_payload: `${Buffer.from(xml).toString('base64')}\n` }).toString();
  },
});
