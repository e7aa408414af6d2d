/** PandaDoc. */
import { known, page, report } from '../evidence.ts';
import { hmac } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac, uuid } from '../signing.ts';
import { query } from '../clauses.ts';

export const pandadoc: Sender = sender('A signature of the body', {
  id: 'pandadoc',
  aliases: ['panda_doc'],
  name: 'PandaDoc',
  headers: [],
  signatureHeader: null,
  expression: (s) => `secure_compare(${query('signature')}, ${hmac(s, 'payload', 'sha256', 'hex')})`,
  sign: ({ body, url, signingKey }) => {
    const full = new URL(url);
    full.searchParams.set('signature', mac('sha256', signingKey, 'hex', body));
    return { headers: {}, url: full.href };
  },
  secret: { what: 'the webhook’s shared key', where: 'Dev Center → Webhooks → the webhook' },
  delivery: known(
    { header: 'X-PandaDoc-Webhook-Event-Id' },
    page('developers.pandadoc.com, changelog of 20 July 2026', 'November 2026'),
  ),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Open Dev Center → Configuration → Create webhook with the URL of the table.'],
  notes: ['The signature is in the query of the URL: `?signature=…`.'],
  eventHeaders: ({ id }) => ({ 'X-PandaDoc-Webhook-Event-Id': uuid(id) }),
  example: ({ id, nowMs }) => [
    {
      event: 'document_state_changed',
      data: {
        id: id.slice(0, 22),
        name: 'Vertrag',
        status: 'document.completed',
        date_completed: isoTime(nowMs),
      },
    },
  ],
});
