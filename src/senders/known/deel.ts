/** Deel. */
import { report } from '../evidence.ts';
import { header, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac, uuid } from '../signing.ts';

export const deel: Sender = sender('A signature of the body', {
  id: 'deel',
  name: 'Deel',
  headers: ['x-deel-signature'],
  expression: (s) =>
    `secure_compare(${header('x-deel-signature')}, ${hmac(s, `${utf8(`'POST'`)} || payload`, 'sha256', 'hex')})`,
  sign: ({ body, signingKey }) => ({
    headers: { 'x-deel-signature': mac('sha256', signingKey, 'hex', 'POST', body) },
  }),
  secret: { what: 'the webhook’s signing key', where: 'Developer Center → Webhooks' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open the Developer Center → Webhooks → Create with the URL of the table.'],
  notes: ['The signed text begins with the method.'],
  example: ({ id, nowMs }) => ({
    data: {
      meta: { event_type: 'contract.created', event_type_id: uuid(id) },
      resource: { id: id.slice(0, 10) },
    },
    timestamp: isoTime(nowMs),
  }),
});
