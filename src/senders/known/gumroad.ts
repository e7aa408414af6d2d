/** Gumroad (Ping). */
import { code, report, unverified } from '../evidence.ts';
import { tokenInQuery } from '../token-forms.ts';
import { formType, type Sender } from '../sender.ts';

export const gumroad: Sender = tokenInQuery('token', {
  id: 'gumroad',
  name: 'Gumroad (Ping)',
  contentType: formType,
  delivery: unverified({ fields: [['sale_id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  retries: {
    when: 'after 1, 3 and 10 minutes, on 499, 500, 502, 503 and 504',
    afterS: [60, 180, 600],
    signed: 'as at first',
    lastS: 840,
    from: code('antiwork/gumroad 8c16285, app/sidekiq/post_to_individual_ping_endpoint_worker.rb'),
  },
  answer: {
    what: 'a 2xx within 5 seconds',
    from: code('antiwork/gumroad 8c16285, app/sidekiq/post_to_individual_ping_endpoint_worker.rb'),
  },
  steps: [
    'Open Settings → Advanced → Ping, with the URL of the table followed by `?token=` and the text of the secret.',
  ],
  example: ({ id }) =>
    new URLSearchParams({
      sale_id: id,
      product_name: 'Café guide',
      email: 'zoe@example.com',
      price: '1999',
    }).toString(),
});
