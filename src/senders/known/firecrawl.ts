/** Firecrawl. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const firecrawl: Sender = hmacBody({
  id: 'firecrawl',
  name: 'Firecrawl',
  prefix: 'sha256=',
  headers: ['X-Firecrawl-Signature'],
  secret: { what: 'the account’s webhook secret', where: 'Account settings → Advanced' },
  delivery: unverified({ fields: [['webhookId']] }),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: ['Give `webhook`, with `url`, the URL of the table, in the request that starts a crawl.'],
  example: ({ id }) => ({
    success: true,
    type: 'crawl.completed',
    id: uuid(id),
    webhookId: uuid(id),
    data: [],
  }),
});
