/** Cloudflare notifications. */
import { report } from '../evidence.ts';
import { tokenHeader, chosen } from '../token-forms.ts';
import type { Sender } from '../sender.ts';

export const cloudflareNotifications: Sender = tokenHeader('plain', {
  id: 'cloudflare_notifications',
  aliases: ['cloudflare'],
  name: 'Cloudflare notifications',
  headers: ['cf-webhook-auth'],
  secret: chosen(),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Open Notifications → Destinations → Webhooks → Create with the URL of the table and a secret.'],
  example: ({ id, nowMs }) => ({
    name: 'Passive Origin Monitoring',
    text: 'Origin unreachable',
    alert_type: 'real_origin_monitoring',
    alert_correlation_id: id,
    ts: Math.floor(nowMs / 1000),
  }),
});
