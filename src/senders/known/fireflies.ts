/** Fireflies.ai. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const fireflies: Sender = hmacBody({
  id: 'fireflies',
  aliases: ['fireflies_ai'],
  name: 'Fireflies.ai',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature'],
  secret: { what: 'the webhook secret', where: 'Settings → Developer settings' },
  steps: ['Open Settings → Developer settings → Webhooks, with the URL of the table and a secret.'],
  example: ({ id, nowMs }) => ({
    meetingId: id,
    eventType: 'Transcription completed',
    clientReferenceId: uuid(id),
    timestamp: nowMs,
  }),
});
