/** Ghost. */
import { code } from '../evidence.ts';
import { element, elements, freshMs, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac } from '../signing.ts';

export const ghost: Sender = sender('A signature of the body and a timestamp', {
  id: 'ghost',
  name: 'Ghost',
  headers: ['X-Ghost-Signature'],
  toleranceS: 300,
  expression: (s) => {
    const at = element('X-Ghost-Signature', 't', ',');
    return `${freshMs(at, 300)}\n  AND secure_compare_any('sha256=' || ${hmac(s, `payload || ${utf8(at)}`, 'sha256', 'hex')},\n    ${elements('X-Ghost-Signature', ',')})`;
  },
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      'X-Ghost-Signature': `sha256=${mac('sha256', signingKey, 'hex', body, String(nowMs))}, t=${nowMs}`,
    },
  }),
  secret: { what: 'the webhook’s secret', where: 'you choose it' },
  evidence: {
    signature: code('TryGhost/Ghost 2cd588c, ghost/core/core/server/services/webhooks/WebhookTrigger.js'),
  },
  answer: {
    what: 'a 2xx within 2 seconds; 410 ends the webhook',
    from: code('TryGhost/Ghost 2cd588c, ghost/core/core/server/services/webhooks/WebhookTrigger.js'),
  },
  steps: [
    'Open Settings → Integrations → Add custom integration → Add webhook, with the URL of the table and a secret.',
  ],
  notes: [
    'Ghost signs the time since version 5; an older one signs the body alone and needs its own expression.',
  ],
  example: ({ id, nowMs }) => ({
    post: { current: { id: id.slice(0, 24), title: 'Café', updated_at: isoTime(nowMs) }, previous: {} },
  }),
});
