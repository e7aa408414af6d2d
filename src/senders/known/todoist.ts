/** Todoist. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const todoist: Sender = hmacBody({
  id: 'todoist',
  name: 'Todoist',
  encoding: 'base64',
  headers: ['X-Todoist-Hmac-SHA256'],
  secret: { what: 'the app’s client secret', where: 'App Management Console → the app' },
  delivery: unverified({ header: 'X-Todoist-Delivery-ID' }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['In the App Management Console open the app → Webhooks, with the URL of the table and the events.'],
  eventHeaders: ({ id }) => ({ 'X-Todoist-Delivery-ID': uuid(id) }),
  example: ({ id, nowMs }) => ({
    event_name: 'item:added',
    user_id: '2671355',
    triggered_at: isoTime(nowMs),
    event_data: { id, content: 'Café' },
  }),
});
