/** Prismic. */
import { report } from '../evidence.ts';
import { field } from '../expressions.ts';
import { tokenInBody, chosen } from '../token-forms.ts';
import type { Sender } from '../sender.ts';

export const prismic: Sender = tokenInBody({
  id: 'prismic',
  name: 'Prismic',
  value: field('secret'),
  put: (document, secret) => ({ ...document, secret }),
  secret: chosen(),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Webhooks → Create with the URL of the table and a secret.'],
  example: ({ id, nowMs }) => ({
    type: 'api-update',
    domain: 'shop',
    apiUrl: 'https://shop.prismic.io/api',
    documents: [id.slice(0, 16)],
    masterRef: id,
    at: nowMs,
  }),
});
