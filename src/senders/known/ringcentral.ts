/** RingCentral. */
import { type Sender, same } from '../sender.ts';
import { isoTime, numeric, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const ringcentral: Sender = tokenHeader('plain', {
  id: 'ringcentral',
  name: 'RingCentral',
  headers: ['Validation-Token'],
  secret: chosen('the text of `deliveryMode.validationToken`'),
  deliveryId: { fields: [['uuid']] },
  steps: [
    'Create subscriptions through the API: `POST /subscription` with `deliveryMode`: `transportType` `WebHook`, `address` the URL of the table, and `validationToken`, the text of the secret. Renew them before they end.',
  ],
  source: 'RingCentral’s page “Creating webhooks”',
  makeSecret: (random) => same(random(24).toString('base64url')),
  example: ({ id, nowMs }) => ({
    uuid: uuid(id),
    event: '/restapi/v1.0/account/~/extension/~/message-store/instant?type=SMS',
    timestamp: isoTime(nowMs),
    subscriptionId: uuid(id),
    body: { id: String(numeric(id)), subject: 'Grüße', direction: 'Inbound' },
  }),
});
