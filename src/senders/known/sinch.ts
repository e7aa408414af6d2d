/** Sinch (Conversation API). */
import { ran } from '../evidence.ts';
import { fresh, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac, seconds, uuid } from '../signing.ts';

export const sinch: Sender = sender('A signature of the body and a timestamp', {
  id: 'sinch',
  name: 'Sinch (Conversation API)',
  headers: [
    'x-sinch-webhook-signature',
    'x-sinch-webhook-signature-nonce',
    'x-sinch-webhook-signature-timestamp',
  ],
  toleranceS: 300,
  expression: (s) =>
    `${fresh(header('x-sinch-webhook-signature-timestamp'), 300)}\n  AND secure_compare(${header('x-sinch-webhook-signature')},\n    ${hmac(s, `payload || ${utf8(`'.' || ${headerOperand('x-sinch-webhook-signature-nonce')} || '.' || ${headerOperand('x-sinch-webhook-signature-timestamp')}`)}`, 'sha256', 'base64')})`,
  sign: ({ body, nowMs, signingKey, id }) => ({
    headers: {
      'x-sinch-webhook-signature-algorithm': 'HmacSHA256',
      'x-sinch-webhook-signature-nonce': id.slice(0, 26),
      'x-sinch-webhook-signature-timestamp': seconds(nowMs),
      'x-sinch-webhook-signature': mac(
        'sha256',
        signingKey,
        'base64',
        body,
        `.${id.slice(0, 26)}.${seconds(nowMs)}`,
      ),
    },
  }),
  secret: { what: 'the webhook’s secret', where: 'you choose it' },
  evidence: { signature: ran('@sinch/sdk-client') },
  steps: ['Open Conversation API → Apps → the app → Webhooks → Add with the URL of the table and a secret.'],
  example: ({ id, nowMs }) => ({
    app_id: id.slice(0, 26),
    accepted_time: isoTime(nowMs),
    project_id: uuid(id),
    message: { id: id.slice(0, 26), contact_message: { text_message: { text: 'Grüße' } } },
  }),
});
