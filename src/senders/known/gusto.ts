/** Gusto. */
import { known, page, report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const gusto: Sender = hmacBody({
  id: 'gusto',
  name: 'Gusto',
  headers: ['X-Gusto-Signature'],
  secret: { what: 'the subscription’s verification token', where: 'it arrives in the first request' },
  delivery: known(
    { fields: [['uuid']] },
    page('docs.gusto.com, changelog “Added unique identifier to webhook event payload”', 'November 2026'),
  ),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    "Create the subscription through the API with `url`, the URL of the table. Gusto first POSTs a `verification_token`: it is refused and kept, `SELECT convert_from(body, 'UTF8') FROM headgate.rejected_requests`. Put it into the secret, and verify the subscription with it.",
  ],
  example: ({ id, nowMs }) => ({
    uuid: uuid(id),
    event_type: 'company.updated',
    resource_type: 'Company',
    resource_uuid: uuid(id),
    timestamp: Math.floor(nowMs / 1000),
  }),
});
