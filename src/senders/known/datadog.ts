/** Datadog monitors. */
import { report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { basicSecret, tokenHeader } from '../token-forms.ts';

export const datadog: Sender = tokenHeader('basic', {
  id: 'datadog',
  name: 'Datadog monitors',
  headers: ['Authorization'],
  secret: basicSecret,
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Open Integrations → Webhooks → New with the URL of the table and a payload in JSON.',
    'Custom headers: `{"Authorization": "Basic …"}`, with the base64 of `user:password`.',
  ],
  example: ({ id, nowMs }) => ({
    id,
    last_updated: String(nowMs),
    event_type: 'metric_alert_monitor',
    title: 'CPU',
  }),
});
