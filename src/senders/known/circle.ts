/** Circle. */
import { known, page, report } from '../evidence.ts';
import { header } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, p256Pair, privateKey, privateText, uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { sign } from 'node:crypto';

export const circle: Sender = sender('A public key', {
  id: 'circle',
  name: 'Circle',
  secretForm: forms.ecKey,
  headers: ['X-Circle-Signature'],
  expression: (s) =>
    `ecdsa_verify(decode(${s}, 'base64'), payload, decode(${header('X-Circle-Signature')}, 'base64'), 'sha256')`,
  sign: ({ body, signingKey }) => ({
    headers: { 'X-Circle-Signature': sign('sha256', body, privateKey(signingKey)).toString('base64') },
  }),
  paired: true,
  makeSecret: () => {
    const pair = p256Pair();
    return {
      secret: pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
      signingKey: privateText(pair.privateKey),
    };
  },
  secret: {
    what: 'the public key, base64',
    where: 'the API’s `GET /v2/notifications/publicKey/{id}`, with the id in `X-Circle-Key-Id`',
  },
  delivery: known(
    { fields: [['notificationId']] },
    page('developers.circle.com/api-reference/webhooks', 'November 2026'),
  ),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Create a subscription in the console, or through the API: `POST /v2/notifications/subscriptions` with `endpoint`, the URL of the table.',
  ],
  example: ({ id, nowMs }) => ({
    subscriptionId: uuid(id),
    notificationId: uuid(id),
    notificationType: 'transactions.outbound',
    timestamp: isoTime(nowMs),
    notification: { id: uuid(id), state: 'COMPLETE' },
  }),
});
