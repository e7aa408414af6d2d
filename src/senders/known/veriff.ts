/** Veriff. */
import { code } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const veriff: Sender = hmacBody({
  id: 'veriff',
  name: 'Veriff',
  headers: ['x-hmac-signature'],
  secret: { what: 'the shared secret key', where: 'Settings → All integrations → the integration' },
  evidence: { signature: code('Veriff/js-integration-demo 5c168d4, app.js') },
  steps: ['Open Settings → All integrations → the integration → Webhook decision URL: the URL of the table.'],
  example: ({ id, nowMs }) => ({
    status: 'success',
    verification: { id: uuid(id), code: 9001, status: 'approved', decisionTime: isoTime(nowMs) },
  }),
});
