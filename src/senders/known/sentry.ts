/** Sentry. */
import { code, ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const sentry: Sender = hmacBody({
  id: 'sentry',
  name: 'Sentry (integration platform)',
  headers: ['Sentry-Hook-Signature'],
  secret: { what: 'the client secret', where: 'in the internal integration’s Credentials' },
  delivery: unverified({ header: 'Request-ID' }),
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      code('getsentry/sentry, src/sentry/sentry_apps/services/app_platform_event.py'),
    ],
    event: code('getsentry/sentry, src/sentry/sentry_apps/services/app_platform_event.py'),
  },
  steps: [
    'Open Settings → Developer Settings → Create New Integration → Internal Integration.',
    'Webhook URL: the URL of the table. Choose the resources and save.',
    'Copy the Client Secret.',
  ],
  notes: ['`Sentry-Hook-Timestamp` is not signed, so it is not checked.'],
  eventHeaders: ({ id, nowMs }) => ({
    'Sentry-Hook-Resource': 'issue',
    'Sentry-Hook-Timestamp': String(Math.floor(nowMs / 1000)),
    'Request-ID': id,
  }),
  example: ({ id }) => ({
    action: 'created',
    data: { issue: { id: String(numeric(id)), title: 'TypeError: café is undefined', level: 'error' } },
    installation: { uuid: uuid(id) },
  }),
});
