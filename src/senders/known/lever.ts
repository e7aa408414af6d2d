/** Lever. */
import { report, unverified } from '../evidence.ts';
import { field, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { mac, uuid } from '../signing.ts';

export const lever: Sender = sender('A signature of the URL or of fields', {
  id: 'lever',
  name: 'Lever',
  headers: [],
  signatureHeader: null,
  signsBody: false,
  expression: (s) =>
    `secure_compare(${field('signature')},\n  ${hmac(s, utf8(`(${field('token')}) || (${field('triggeredAt')})`), 'sha256', 'hex')})`,
  sign: ({ body, signingKey, id, nowMs }) => {
    const event = { ...(JSON.parse(body.toString()) as object), token: id, triggeredAt: nowMs };
    const signature = mac('sha256', signingKey, 'hex', id, String(nowMs));
    return { headers: {}, body: Buffer.from(JSON.stringify({ ...event, signature })) };
  },
  secret: { what: 'the signature token', where: 'Settings → Integrations and API → Webhooks' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Integrations and API → Webhooks, with the URL of the table for each event.'],
  notes: ['Only a token and the time in the body are signed, not the event.'],
  example: ({ id }) => ({
    id: uuid(id),
    event: 'candidateStageChange',
    data: { candidateId: uuid(id), contactId: uuid(id) },
  }),
});
