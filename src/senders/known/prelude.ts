/** Prelude. */
import { page } from '../evidence.ts';
import { constants, sign } from 'node:crypto';
import { header } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, privateKey, rsaSecret, uuid } from '../signing.ts';

const pss = 'rsassa-pss-sha256=';

const preludeSignature = `translate(replace(${header('X-Webhook-Signature')}, '${pss}', ''), '-_', '+/')`;

export const prelude: Sender = sender('A public key', {
  id: 'prelude',
  name: 'Prelude',
  secretForm: forms.pem,
  headers: ['X-Webhook-Signature'],
  secret: {
    what: 'the public key (PEM)',
    where:
      'the dashboard → Verify API → Configure → Webhooks; for the Session API the application’s JWKS, converted to PEM',
  },
  evidence: {
    signature: page('docs.prelude.so, “Webhooks”', 'November 2026'),
    handshake: page('docs.prelude.so, “Activation Challenge Request”', 'November 2026'),
  },
  steps: [
    'Create the table first: Prelude calls it when the webhook is activated.',
    'Session API: `POST /v2/session/apps/{appID}/webhooks` with the URL of the table and a verification token, then `…/activate`. Verify API: enter the URL in the dashboard, or pass it as `callback_url`.',
  ],
  expression: (s) =>
    `rsa_pss_verify(${s}, payload,\n  decode(${preludeSignature}\n    || CASE length(${preludeSignature}) % 4 WHEN 2 THEN '==' WHEN 3 THEN '=' ELSE '' END, 'base64'), 'sha256')`,
  sign: ({ body, signingKey }) => {
    const key = privateKey(signingKey);
    const padding = constants.RSA_PKCS1_PSS_PADDING;
    const made = sign('sha256', body, { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST });
    return { headers: { 'X-Webhook-Signature': `${pss}${made.toString('base64url')}` } };
  },
  paired: true,
  makeSecret: rsaSecret,
  example: ({ id, nowMs }) => ({
    app_id: id.slice(0, 7),
    events: [{ id: uuid(id), type: 'user.created', created_at: isoTime(nowMs) }],
  }),
});
