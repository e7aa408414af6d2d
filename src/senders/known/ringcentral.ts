/** RingCentral. */
import { code, page, unverified } from '../evidence.ts';
import { type Sender, same } from '../sender.ts';
import { isoTime, numeric, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const ringcentral: Sender = tokenHeader('plain', {
  id: 'ringcentral',
  name: 'RingCentral',
  headers: ['Verification-Token'],
  secret: chosen('the text of `deliveryMode.verificationToken`'),
  delivery: unverified({ fields: [['uuid']] }),
  evidence: {
    signature: code(
      'ringcentral/ringcentral-api-docs, specs/ringcentral_openapi3.json and outgoing-webhooks.md',
    ),
    handshake: page('developers.ringcentral.com, “Creating webhooks”', 'April 2026'),
  },
  notes: [
    'Subscriptions that were made with `deliveryMode.validationToken`, as an older page of RingCentral’s shows, have to be made again with `verificationToken`.',
  ],
  steps: [
    'Create subscriptions through the API: `POST /subscription` with `deliveryMode`: `transportType` `WebHook`, `address` the URL of the table, and `verificationToken`, the text of the secret. Renew them before they end.',
  ],
  makeSecret: (random) => same(random(24).toString('base64url')),
  example: ({ id, nowMs }) => ({
    uuid: uuid(id),
    event: '/restapi/v1.0/account/~/extension/~/message-store/instant?type=SMS',
    timestamp: isoTime(nowMs),
    subscriptionId: uuid(id),
    body: { id: String(numeric(id)), subject: 'Grüße', direction: 'Inbound' },
  }),
});
