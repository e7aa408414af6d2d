/** Convoy. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const convoy: Sender = hmacBody({
  id: 'convoy',
  name: 'Convoy (SHA-512, hexadecimal)',
  algorithm: 'sha512',
  headers: ['X-Convoy-Signature'],
  secret: { what: 'the endpoint’s secret', where: 'in the endpoint’s settings' },
  steps: ['Add the URL of the table as an endpoint of the project; simple signatures, SHA-512, hexadecimal.'],
  example: ({ id }) => ({ event_type: 'invoice.paid', data: { id, amount: 1999 } }),
});
