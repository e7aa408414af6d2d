/** Firecrawl. */
import { code, ran, unverified } from '../evidence.ts';
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
  evidence: {
    signature: [ran('@trigger.dev/core'), code('firecrawl/firecrawl-docs, webhooks/security.mdx')],
  },
  retries: {
    when: 'after 1, 5 and 15 minutes',
    afterS: [60, 360, 1260],
    signed: 'unsaid',
    from: code('firecrawl/firecrawl-docs, webhooks/overview.mdx'),
  },
  answer: { what: 'a 2xx within 10 seconds', from: code('firecrawl/firecrawl-docs, webhooks/overview.mdx') },
  steps: ['Give `webhook`, with `url`, the URL of the table, in the request that starts a crawl.'],
  example: ({ id }) => ({
    success: true,
    type: 'crawl.completed',
    id: uuid(id),
    webhookId: uuid(id),
    data: [],
  }),
});
