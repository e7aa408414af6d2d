/** Strava. */
import { field } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, same } from '../sender.ts';
import { numeric } from '../signing.ts';
import { tokenInBody } from '../token-forms.ts';

export const strava: Sender = tokenInBody({
  id: 'strava',
  name: 'Strava',
  secretForm: forms.digits,
  secret: { what: 'the id of the subscription', where: 'in the answer of the call that subscribes' },
  value: field('subscription_id'),
  put: (document, key) => ({ ...document, subscription_id: Number(key) }),
  steps: [
    'Create the table first, with `1` as its secret: Strava calls it while the subscription is created.',
    'Subscribe through the API: `POST /push_subscriptions` with `callback_url`, the URL of the table, and `verify_token`. Put the `id` from the answer into the secret with `ALTER SECRET`.',
  ],
  notes: [
    'Strava signs nothing and sends no token with its events. Only the subscription’s number identifies them, and it can be guessed: fetch what an event names through the API before you rely on it.',
  ],
  makeSecret: (random) => same(String(random(4).readUInt32BE())),
  example: ({ id, nowMs }) => ({
    aspect_type: 'create',
    event_time: Math.floor(nowMs / 1000),
    object_id: numeric(id),
    object_type: 'activity',
    owner_id: 134815,
    updates: {},
  }),
});
