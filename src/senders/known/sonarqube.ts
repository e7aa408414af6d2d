/** SonarQube and SonarCloud. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const sonarqube: Sender = hmacBody({
  id: 'sonarqube',
  aliases: ['sonarcloud', 'sonar'],
  name: 'SonarQube and SonarCloud',
  headers: ['X-Sonar-Webhook-HMAC-SHA256'],
  secret: { what: 'the webhook’s secret', where: 'you choose it' },
  delivery: unverified({ fields: [['taskId']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open the project’s Administration → Webhooks → Create with the URL of the table and a secret.'],
  example: ({ id, nowMs }) => ({
    taskId: id.slice(0, 20),
    status: 'SUCCESS',
    analysedAt: isoTime(nowMs),
    project: { key: 'shop', name: 'Café' },
    qualityGate: { status: 'OK' },
  }),
});
