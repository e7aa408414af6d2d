/** Gumroad (Ping). */
import { report, unverified } from '../evidence.ts';
import { tokenInQuery } from '../token-forms.ts';
import { formType, type Sender } from '../sender.ts';

export const gumroad: Sender = tokenInQuery('token', {
  id: 'gumroad',
  name: 'Gumroad (Ping)',
  contentType: formType,
  delivery: unverified({ fields: [['sale_id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
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
