/** Storyblok. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const storyblok: Sender = hmacBody({
  id: 'storyblok',
  name: 'Storyblok',
  algorithm: 'sha1',
  headers: ['webhook-signature'],
  secret: { what: 'the webhook’s secret', where: 'you choose it' },
  steps: ['Open the space’s Settings → Webhooks → New with the URL of the table and a secret.'],
  example: ({ id }) => ({
    text: 'The story café was published',
    action: 'published',
    space_id: 1,
    story_id: numeric(id),
    full_slug: 'café',
  }),
});
