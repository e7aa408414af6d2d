/** ClickUp. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const clickup: Sender = hmacBody({
  id: 'clickup',
  name: 'ClickUp',
  headers: ['X-Signature'],
  secret: { what: '`webhook.secret`', where: 'in the answer of the call that creates the webhook' },
  steps: [
    'Create webhooks through the API: `POST /team/{team_id}/webhook` with `endpoint`, the URL of the table, and the events.',
  ],
  source: 'ClickUp’s page “Webhook signature”',
  example: ({ id }) => ({
    event: 'taskUpdated',
    task_id: id.slice(0, 9),
    webhook_id: uuid(id),
    history_items: [{ id: String(numeric(id)), type: 1, field: 'status', user: { username: 'Zoë' } }],
  }),
});
