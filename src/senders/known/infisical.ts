/** Infisical. */
import { code, ran } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { mac, uuid } from '../signing.ts';

export const infisical: Sender = sender('A signature of the body', {
  id: 'infisical',
  name: 'Infisical',
  headers: ['X-Infisical-Signature'],
  expression: (s) =>
    `secure_compare(split_part(replace(${header('X-Infisical-Signature')}, ' ', ''), ';', 2), ${hmac(s, 'payload', 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: { 'X-Infisical-Signature': `t=${nowMs};${mac('sha256', signingKey, 'hex', body)}` },
  }),
  secret: { what: 'the webhook’s secret key', where: 'you choose it' },
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      code('Infisical/infisical 02a8750, backend/src/services/webhook/webhook-fns.ts'),
    ],
  },
  retries: {
    when: null,
    signed: 'anew',
    from: code('Infisical/infisical 02a8750, backend/src/services/webhook/webhook-fns.ts'),
  },
  answer: {
    what: 'a 2xx within 15 seconds',
    from: code('Infisical/infisical 02a8750, backend/src/services/webhook/webhook-fns.ts'),
  },
  steps: ['Open the project’s Settings → Webhooks → Create with the URL of the table and a secret key.'],
  notes: ['The time in the header is not signed, so it is not checked.'],
  example: ({ id, nowMs }) => ({
    event: 'secrets.modified',
    project: { workspaceId: uuid(id), environment: 'prod', secretPath: '/' },
    timestamp: nowMs,
  }),
});
