/** Prometheus Alertmanager. */
import { code } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const alertmanager: Sender = tokenHeader('bearer', {
  id: 'alertmanager',
  name: 'Prometheus Alertmanager',
  headers: ['Authorization'],
  secret: chosen(),
  evidence: { event: code('prometheus/alertmanager, notify/webhook/webhook.go') },
  steps: [
    'In `alertmanager.yml` give a receiver `webhook_configs` with `url`, the URL of the table, and `http_config: {authorization: {credentials_file: …}}`, a file with the text of the secret.',
  ],
  notes: [
    'Alertmanager sends a group of alerts again while it fires (`repeat_interval`): that is stored as a new row.',
  ],
  example: ({ id, nowMs }) => ({
    version: '4',
    groupKey: '{}:{alertname="DiskFull"}',
    status: 'firing',
    receiver: 'headgate',
    alerts: [
      {
        status: 'firing',
        labels: { alertname: 'DiskFull', instance: 'café-1' },
        startsAt: isoTime(nowMs),
        fingerprint: id.slice(0, 16),
      },
    ],
  }),
});
