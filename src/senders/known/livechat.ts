/** LiveChat. */
import { report } from '../evidence.ts';
import { field } from '../expressions.ts';
import { tokenInBody, chosen } from '../token-forms.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const livechat: Sender = tokenInBody({
  id: 'livechat',
  name: 'LiveChat',
  value: field('secret_key'),
  put: (document, key) => ({ ...document, secret_key: key }),
  secret: chosen(),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Register webhooks through the API with `url`, the URL of the table, and `secret_key`.'],
  example: ({ id, nowMs }) => ({
    webhook_id: id,
    action: 'incoming_chat',
    organization_id: uuid(id),
    payload: { chat: { id: id.slice(0, 10), created_at: isoTime(nowMs) } },
  }),
});
