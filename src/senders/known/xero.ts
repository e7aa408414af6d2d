/** Xero. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const xero: Sender = hmacBody({
  id: 'xero',
  name: 'Xero',
  encoding: 'base64',
  headers: ['x-xero-signature'],
  secret: { what: 'the webhooks key', where: 'in the app, under Webhooks' },
  steps: [
    'On the developer site open the app → Webhooks, choose the events and enter the URL of the table.',
    'Copy the webhooks key into the secret first, then save: Xero tests the URL at once.',
  ],
  example: ({ id, nowMs }) => ({
    events: [
      { resourceId: uuid(id), eventDateUtc: isoTime(nowMs), eventType: 'UPDATE', eventCategory: 'INVOICE' },
    ],
    firstEventSequence: 1,
    lastEventSequence: 1,
  }),
});
