/** Wise. */
import { report, unverified } from '../evidence.ts';
import { header } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, numeric, privateKey, rsaSecret, uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { sign } from 'node:crypto';

export const wise: Sender = sender('A public key', {
  id: 'wise',
  aliases: ['transferwise'],
  name: 'Wise',
  secretForm: forms.pem,
  headers: ['X-Signature-SHA256'],
  expression: (s) => `rsa_verify(${s}, payload, decode(${header('X-Signature-SHA256')}, 'base64'), 'sha256')`,
  sign: ({ body, signingKey }) => ({
    headers: { 'X-Signature-SHA256': sign('sha256', body, privateKey(signingKey)).toString('base64') },
  }),
  paired: true,
  makeSecret: rsaSecret,
  secret: {
    what: 'Wise’s public key (PEM)',
    where: 'in its documentation, “Webhooks signatures”: one for each environment',
  },
  delivery: unverified({ header: 'X-Delivery-Id' }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Open Settings → Developer tools → Webhooks, with the URL of the table, or subscribe through the API.',
  ],
  notes: ['Wise signs for all its customers with the same key: compare `subscription_id`.'],
  eventHeaders: ({ id }) => ({ 'X-Delivery-Id': uuid(id) }),
  example: ({ id, nowMs }) => ({
    data: {
      resource: { id: numeric(id), type: 'transfer' },
      current_state: 'outgoing_payment_sent',
      occurred_at: isoTime(nowMs),
    },
    subscription_id: uuid(id),
    event_type: 'transfers#state-change',
    schema_version: '2.0.0',
    sent_at: isoTime(nowMs),
  }),
});
