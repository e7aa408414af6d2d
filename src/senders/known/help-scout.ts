/** Help Scout. */
import { code } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const helpScout: Sender = hmacBody({
  id: 'help_scout',
  aliases: ['helpscout'],
  name: 'Help Scout',
  algorithm: 'sha1',
  encoding: 'base64',
  headers: ['X-HelpScout-Signature'],
  secret: { what: 'the webhook’s secret key', where: 'you choose it' },
  evidence: {
    signature: code('helpscout/helpscout-api-php 6edf266, src/Webhooks/IncomingWebhook.php'),
    event: code('helpscout/helpscout-api-php 6edf266, src/Webhooks/IncomingWebhook.php'),
  },
  steps: ['Open Manage → Apps → Webhooks, with the URL of the table and a secret key.'],
  eventHeaders: () => ({ 'X-HelpScout-Event': 'convo.created' }),
  example: ({ id, nowMs }) => ({
    id: numeric(id),
    subject: 'Où est ma commande ?',
    status: 'active',
    createdAt: isoTime(nowMs),
  }),
});
