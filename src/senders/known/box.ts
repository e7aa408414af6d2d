/** Box. */
import { known, page, ran } from '../evidence.ts';
import { freshIso, header, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoSeconds, mac, numeric, uuid } from '../signing.ts';

const boxTime = 'BOX-DELIVERY-TIMESTAMP';

const boxPart = (s: string, name: string) =>
  `secure_compare(${header(name)}, ${hmac(s, `payload || ${utf8(header(boxTime))}`, 'sha256', 'base64')})`;

export const box: Sender = sender('A signature of the body and a timestamp', {
  id: 'box',
  name: 'Box (webhooks v2)',
  toleranceS: 600,
  headers: ['BOX-SIGNATURE-PRIMARY', 'BOX-SIGNATURE-SECONDARY', boxTime],
  secret: {
    what: 'the primary or the secondary signature key',
    where: 'Developer Console → the app → Webhooks',
  },
  delivery: known({ fields: [['id']] }, page('developer.box.com, “Handle webhooks”', 'February 2026')),
  retries: {
    when: 'up to 12 times within 2 hours',
    signed: 'anew',
    from: page('developer.box.com, “Handle webhooks”', 'February 2026'),
  },
  evidence: {
    signature: [ran('box-node-sdk'), page('developer.box.com, “Handle webhooks”', 'February 2026')],
    rotation: page('developer.box.com, “Handle webhooks”', 'February 2026'),
    event: page('developer.box.com, “Handle webhooks”', 'February 2026'),
  },
  steps: [
    'In the Developer Console open the app → Webhooks → Manage signature keys and generate both keys.',
    'Create the webhook (V2): the URL of the table, and the triggers.',
  ],
  notes: ['With both keys: `VALIDATE SECRET primary_key, secondary_key USING box`.'],
  expression: (s) =>
    `${freshIso(header(boxTime), 600)}\n  AND (${boxPart(s, 'BOX-SIGNATURE-PRIMARY')}\n    OR ${boxPart(s, 'BOX-SIGNATURE-SECONDARY')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      'BOX-SIGNATURE-VERSION': '1',
      'BOX-SIGNATURE-ALGORITHM': 'HmacSHA256',
      [boxTime]: isoSeconds(nowMs),
      'BOX-SIGNATURE-PRIMARY': mac('sha256', signingKey, 'base64', body, isoSeconds(nowMs)),
    },
  }),
  eventHeaders: ({ id }) => ({ 'BOX-DELIVERY-ID': uuid(id) }),
  example: ({ id, nowMs }) => ({
    type: 'webhook_event',
    id: uuid(id),
    created_at: isoSeconds(nowMs),
    trigger: 'FILE.UPLOADED',
    source: { id: String(numeric(id)), type: 'file', name: 'résumé.pdf' },
  }),
});
