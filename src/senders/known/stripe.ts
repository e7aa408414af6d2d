/** Stripe. */
import { code, known, page, ran, report } from '../evidence.ts';
import { type Sender, textSecret } from '../sender.ts';
import { timestampedList } from '../timestamped.ts';

export const stripe: Sender = timestampedList({
  id: 'stripe',
  name: 'Stripe',
  time: 't',
  version: 'v1',
  toleranceS: 300,
  headers: ['Stripe-Signature'],
  secret: {
    what: 'the signing secret, the whole text `whsec_…`',
    where: 'Workbench → Webhooks → the endpoint',
  },
  // Stripe's API reference: `pending_webhooks` counts the endpoints that have not accepted the event yet, so a repetition has another number.
  delivery: known(
    { fields: [['id']], stays: [['type'], ['data']] },
    page('docs.stripe.com/webhooks', 'November 2026'),
  ),
  retries: {
    when: 'for up to three days, more and more rarely',
    signed: 'anew',
    from: page('docs.stripe.com/webhooks', 'November 2026'),
  },
  answer: {
    what: 'a 2xx “promptly”; no number of seconds is named',
    from: page('support.stripe.com, “Webhooks: how to investigate and fix "Timed out"”', 'November 2026'),
  },
  evidence: {
    signature: [ran('stripe'), ran('stripe (Python)')],
    rotation: code('stripe/stripe-node, src/Webhooks.ts'),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  steps: [
    'Open Workbench (or Developers) → Webhooks → Add destination.',
    'Choose the events and enter the URL of the table.',
    'Open the destination and reveal its signing secret.',
  ],
  notes: [
    'While a secret is being rolled, Stripe sends one `v1` for each of the two; either may match.',
    "What never arrived can be had from Stripe's list of events: [`reconcile`](../reconcile.md).",
  ],
  makeSecret: textSecret('whsec_', 16),
  example: ({ id, nowMs }) => ({
    id: `evt_${id.slice(0, 24)}`,
    object: 'event',
    created: Math.floor(nowMs / 1000),
    type: 'invoice.paid',
    livemode: false,
    data: { object: { id: 'in_1MtHbELkdIwHu7ix', object: 'invoice', amount_paid: 1999, currency: 'eur' } },
  }),
});
