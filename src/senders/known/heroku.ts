/** Heroku app webhooks. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const heroku: Sender = hmacBody({
  id: 'heroku',
  name: 'Heroku app webhooks',
  encoding: 'base64',
  headers: ['Heroku-Webhook-Hmac-SHA256'],
  secret: { what: 'the webhook’s secret', where: 'you choose it, or `heroku webhooks:add` prints it' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['`heroku webhooks:add -i api:release -l notify -u <the URL of the table> -s <secret>`.'],
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    action: 'create',
    resource: 'release',
    created_at: isoTime(nowMs),
    webhook_metadata: { event: { id: uuid(id), include: 'api:release' }, attempt: { id: uuid(id) } },
  }),
});
