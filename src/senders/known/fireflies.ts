/** Fireflies.ai. */
import { report } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const fireflies: Sender = hmacBody({
  id: 'fireflies',
  aliases: ['fireflies_ai'],
  name: 'Fireflies.ai',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature'],
  expression: (s) =>
    `secure_compare(replace(${header('X-Hub-Signature')}, 'sha256=', ''), ${hmac(s, 'payload', 'sha256', 'hex')})`,
  evidence: { signature: report('several public receivers, read in November 2026') },
  notes: ['Public receivers disagree whether `sha256=` comes first: both are accepted.'],
  secret: { what: 'the webhook secret', where: 'Settings → Developer settings' },
  steps: ['Open Settings → Developer settings → Webhooks, with the URL of the table and a secret.'],
  example: ({ id, nowMs }) => ({
    meetingId: id,
    eventType: 'Transcription completed',
    clientReferenceId: uuid(id),
    timestamp: nowMs,
  }),
});
