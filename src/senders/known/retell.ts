/** Retell AI. */
import { ran } from '../evidence.ts';
import { element, freshMs, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender, textSecret } from '../sender.ts';
import { mac } from '../signing.ts';

const signature = 'X-Retell-Signature';

export const retell: Sender = sender('A signature of the body and a timestamp', {
  id: 'retell',
  name: 'Retell AI',
  aliases: ['retell_ai'],
  toleranceS: 300,
  headers: [signature],
  secret: { what: 'the API key that has the webhook badge', where: 'Settings → API Keys' },
  makeSecret: textSecret('key_', 14),
  evidence: { signature: ran('retell-sdk') },
  steps: ['Open Settings → Webhooks, or the agent’s webhook settings, and enter the URL of the table.'],
  expression: (s) =>
    `${freshMs(element(signature, 'v', ','), 300)}\n  AND secure_compare(${element(signature, 'd', ',')},\n    ` +
    `${hmac(s, `payload || ${utf8(element(signature, 'v', ','))}`, 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: { [signature]: `v=${nowMs},d=${mac('sha256', signingKey, 'hex', body, String(nowMs))}` },
  }),
  example: ({ id, nowMs }) => ({
    event: 'call_ended',
    call: { call_id: id, call_status: 'ended', end_timestamp: nowMs, transcript: 'Agent: Grüße, Zoë' },
  }),
});
