/** QuickBooks Online. */
import { unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { type Sender, same } from '../sender.ts';
import { isoSeconds, uuid } from '../signing.ts';

export const quickbooks: Sender = hmacBody({
  id: 'quickbooks',
  aliases: ['intuit', 'qbo'],
  name: 'QuickBooks Online (Intuit)',
  encoding: 'base64',
  headers: ['intuit-signature'],
  secret: { what: 'the verifier token', where: 'the app → Webhooks' },
  delivery: unverified({ ofEach: 'id' }),
  events: { what: 'event' },
  steps: [
    'On developer.intuit.com open the app → Webhooks, enter the URL of the table, choose the entities and save.',
    'Show the verifier token and put it into the secret.',
  ],
  notes: [
    'One request is a list of events (CloudEvents); the older form is an object with `eventNotifications`, which has no ids.',
  ],
  makeSecret: (random) => same(uuid(random(16).toString('hex'))),
  example: ({ id, nowMs }) => [
    {
      specversion: '1.0',
      id: uuid(id),
      source: 'intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=',
      type: 'qbo.invoice.created.v1',
      time: isoSeconds(nowMs),
      intuitentityid: '1234',
      intuitaccountid: '310687',
    },
  ],
});
