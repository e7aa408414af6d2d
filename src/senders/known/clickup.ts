/** ClickUp. */
import { page, report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const clickup: Sender = hmacBody({
  id: 'clickup',
  aliases: ['click_up'],
  name: 'ClickUp',
  headers: ['X-Signature'],
  secret: { what: '`webhook.secret`', where: 'in the answer of the call that creates the webhook' },
  delivery: unverified({ fields: [['webhook_id'], ['history_items', '0', 'id']] }),
  evidence: {
    signature: [
      report('a public receiver’s table of signatures, read in November 2026'),
      page('developer.clickup.com, “Webhook signature”', 'November 2026'),
    ],
  },
  steps: [
    'Create webhooks through the API: `POST /team/{team_id}/webhook` with `endpoint`, the URL of the table, and the events.',
  ],
  example: ({ id }) => ({
    event: 'taskUpdated',
    task_id: id.slice(0, 9),
    webhook_id: uuid(id),
    history_items: [{ id: String(numeric(id)), type: 1, field: 'status', user: { username: 'Zoë' } }],
  }),
});
