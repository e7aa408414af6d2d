/** Flutterwave. */
import { report } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { mac } from '../signing.ts';

export const flutterwave: Sender = sender('A token', {
  id: 'flutterwave',
  aliases: ['flutter_wave'],
  name: 'Flutterwave',
  headers: ['flutterwave-signature', 'verif-hash'],
  signsBody: false,
  expression: (s) =>
    `secure_compare(${header('flutterwave-signature')}, ${hmac(s, 'payload', 'sha256', 'base64')})\n` +
    `  OR ${header('flutterwave-signature')} IS NULL AND secure_compare(${header('verif-hash')}, ${s})`,
  sign: ({ body, signingKey }) => ({
    headers: { 'flutterwave-signature': mac('sha256', signingKey, 'base64', body) },
  }),
  signatureHeader: null,
  secret: { what: 'the secret hash', where: 'you choose it' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Webhooks, with the URL of the table and a secret hash.'],
  notes: [
    'Version 4 signs (`flutterwave-signature`); version 3 sends the secret hash itself (`verif-hash`), and both are accepted.',
  ],
  example: ({ id, nowMs }) => ({
    webhook_id: `wbk_${id.slice(0, 20)}`,
    timestamp: nowMs,
    type: 'charge.completed',
    data: { id: `chg_${id.slice(0, 10)}`, amount: 2000, currency: 'NGN', status: 'succeeded' },
  }),
});
