/** Grafana Alerting. */
import { code } from '../evidence.ts';
import { fresh, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoSeconds, mac, seconds } from '../signing.ts';

const grafanaTime = 'X-Grafana-Alerting-Timestamp';

const grafanaSignature = 'X-Grafana-Alerting-Signature';

export const grafana: Sender = sender('A signature of the body and a timestamp', {
  id: 'grafana',
  name: 'Grafana Alerting',
  toleranceS: 300,
  headers: [grafanaSignature, grafanaTime],
  secret: { what: 'the secret of the contact point’s HMAC signature', where: 'you choose it' },
  retries: {
    when: 'as its notification policies say',
    signed: 'anew',
    from: code('grafana/alerting, the HMACRoundTripper'),
  },
  evidence: { signature: code('grafana/alerting, the HMACRoundTripper') },
  steps: [
    'Open Alerting → Contact points → Add contact point, integration Webhook, with the URL of the table.',
    `Under “HMAC signature” enter the secret, and \`${grafanaTime}\` as the timestamp header. Leave the other header as it is.`,
  ],
  notes: [
    'Without a timestamp header Grafana signs only the body, which this check does not accept. Grafana before version 12 does not sign: `USING basic_auth` or `USING bearer`.',
  ],
  expression: (s) =>
    `${fresh(header(grafanaTime), 300)}\n  AND secure_compare(${header(grafanaSignature)},\n    ` +
    `${hmac(s, `${utf8(`${headerOperand(grafanaTime)} || ':'`)} || payload`, 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      [grafanaTime]: seconds(nowMs),
      [grafanaSignature]: mac('sha256', signingKey, 'hex', `${seconds(nowMs)}:`, body),
    },
  }),
  example: ({ id, nowMs }) => ({
    receiver: 'headgate',
    status: 'firing',
    orgId: 1,
    alerts: [
      {
        status: 'firing',
        labels: { alertname: 'DiskFull' },
        startsAt: isoSeconds(nowMs),
        fingerprint: id.slice(0, 16),
      },
    ],
    title: '[FIRING:1] DiskFull (café-1)',
  }),
});
