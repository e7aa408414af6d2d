/** Netlify deploy notifications. */
import { report } from '../evidence.ts';
import { digestToken } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const netlify: Sender = digestToken({
  id: 'netlify',
  name: 'Netlify deploy notifications',
  claim: 'sha256',
  headers: ['X-Webhook-Signature'],
  claims: () => ({ iss: 'netlify' }),
  secret: { what: 'the JWS secret token', where: 'you choose it' },
  evidence: { signature: report('Yizack/nuxt-webhook-validators, August 2026') },
  steps: [
    'Open the site’s Project configuration → Notifications → Add notification → HTTP POST request, with the URL of the table and a JWS secret token.',
  ],
  eventHeaders: () => ({ 'X-Netlify-Event': 'deploy_created' }),
  example: ({ id, nowMs }) => ({
    id: id.slice(0, 24),
    site_id: uuid(id),
    state: 'ready',
    name: 'shop',
    updated_at: isoTime(nowMs),
  }),
});
