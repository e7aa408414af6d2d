/** Shopify. */
import { known, page, ran, report, vector } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, numeric, uuid } from '../signing.ts';

export const shopify: Sender = hmacBody({
  id: 'shopify',
  aliases: ['shopify_events'],
  name: 'Shopify',
  encoding: 'base64',
  // Its “Events” and newer packages write the names without `X-`.
  headers: ['X-Shopify-Hmac-Sha256', 'Shopify-Hmac-Sha256'],
  expression: (s) =>
    `secure_compare(coalesce(${header('X-Shopify-Hmac-Sha256')}, ${header('Shopify-Hmac-Sha256')}),\n  ${hmac(s, 'payload', 'sha256', 'base64')})`,
  secret: {
    what: 'the app’s client secret, or the key under the list of webhooks',
    where: 'in the app’s settings or in Settings → Notifications → Webhooks',
  },
  delivery: known(
    { header: 'X-Shopify-Event-Id' },
    page('shopify.dev, “Ignore duplicate webhooks”', 'November 2026'),
    'Several subscriptions of one event, each with its own X-Shopify-Webhook-Id, share the id.',
  ),
  retries: {
    when: '8 times within 4 hours',
    signed: 'unsaid',
    from: page('shopify.dev, changelog of 10 September 2024', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 5 seconds',
    from: page('shopify.dev, “Deliver webhooks through HTTPS”', 'November 2026'),
  },
  evidence: {
    signature: [
      ran('@shopify/shopify-api'),
      vector('Shopify/shopify-app-js, webhooks/__tests__/validate.test.ts'),
    ],
    rotation: page('shopify.dev, “Verify webhook deliveries”', 'November 2026'),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  steps: [
    'In the shop’s admin open Settings → Notifications → Webhooks → Create webhook.',
    'Choose the event, the format JSON and the URL of the table.',
    'Copy the key that the page says all webhooks are signed with.',
  ],
  notes: [
    'After a change of the secret, Shopify may sign with the old one for some time: list both secrets meanwhile.',
    "Shopify’s “Events”, a preview, sign in `Shopify-Hmac-Sha256`, which the check reads too, and have no event id: `dedupe = 'header:shopify-webhook-id'`.",
  ],
  eventHeaders: ({ id }) => ({
    'X-Shopify-Topic': 'orders/create',
    'X-Shopify-Shop-Domain': 'acme.myshopify.com',
    'X-Shopify-Event-Id': uuid(id),
    'X-Shopify-Webhook-Id': uuid(id),
  }),
  example: ({ id, nowMs }) => ({
    id: numeric(id),
    email: 'zoe@example.com',
    created_at: isoSeconds(nowMs),
    total_price: '199.00',
    currency: 'EUR',
    line_items: [{ id: 866550311766439, title: 'Café mug', quantity: 1, price: '199.00' }],
  }),
});
