/** Fireblocks (v1). */
import { report } from '../evidence.ts';
import { header } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { privateKey, rsaSecret, uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { sign } from 'node:crypto';

export const fireblocks: Sender = sender('A public key', {
  id: 'fireblocks',
  name: 'Fireblocks (v1)',
  secretForm: forms.pem,
  ended: 'Fireblocks has announced the end of webhooks of version 1 for 15 June 2026.',
  headers: ['Fireblocks-Signature'],
  expression: (s) =>
    `rsa_verify(${s}, payload, decode(${header('Fireblocks-Signature')}, 'base64'), 'sha512')`,
  sign: ({ body, signingKey }) => ({
    headers: { 'Fireblocks-Signature': sign('sha512', body, privateKey(signingKey)).toString('base64') },
  }),
  paired: true,
  makeSecret: rsaSecret,
  secret: {
    what: 'Fireblocks’ public key (PEM)',
    where: 'in its documentation, “Validating webhooks”: one for each environment',
  },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → General → Configure webhook with the URL of the table.'],
  notes: [
    'Fireblocks signs for all its customers with the same key: compare `tenantId` before you rely on an event.',
    'Version 2 signs with keys that Fireblocks publishes: [a check of your own](own-checks.md#a-detached-signature-fireblocks) takes them from there.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'TRANSACTION_STATUS_UPDATED',
    tenantId: uuid(id),
    timestamp: nowMs,
    data: { id: uuid(id), status: 'COMPLETED' },
  }),
});
