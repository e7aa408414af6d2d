/** Telegram bots. */
import { known, page } from '../evidence.ts';
import { forms } from '../secret-forms.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const telegram: Sender = tokenHeader('plain', {
  id: 'telegram',
  aliases: ['telegram_bot'],
  secretForm: forms.telegram,
  name: 'Telegram bots',
  headers: ['X-Telegram-Bot-Api-Secret-Token'],
  secret: chosen('1 to 256 characters out of `A-Z a-z 0-9 _ -`'),
  delivery: known({ fields: [['update_id']] }, page('core.telegram.org/bots/api, “Update”', 'November 2026')),
  evidence: {
    signature: page('core.telegram.org/bots/api, “setWebhook”', 'November 2026'),
    secret: page('core.telegram.org/bots/api, “setWebhook”', 'November 2026'),
    rotation: page('core.telegram.org/bots/api, “setWebhook”', 'November 2026'),
  },
  retries: {
    when: 'a reasonable number of times',
    signed: 'unsaid',
    from: page('core.telegram.org/bots/api, “setWebhook”', 'November 2026'),
  },
  answer: { what: 'a 2xx', from: page('core.telegram.org/bots/api, “setWebhook”', 'November 2026') },
  steps: [
    'Call the bot’s `setWebhook` with `url`, the URL of the table, and `secret_token`, the text of the secret.',
  ],
  example: ({ id, nowMs }) => ({
    update_id: numeric(id),
    message: {
      message_id: 7,
      date: Math.floor(nowMs / 1000),
      chat: { id: 583231, type: 'private' },
      text: 'Привет',
    },
  }),
});
