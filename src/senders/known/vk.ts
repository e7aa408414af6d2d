/** VK Callback API. */
import { report, unverified } from '../evidence.ts';
import { field } from '../expressions.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';
import { chosen, tokenInBody } from '../token-forms.ts';

export const vk: Sender = tokenInBody({
  id: 'vk',
  aliases: ['vkontakte'],
  name: 'VK Callback API',
  secret: chosen('the secret key'),
  value: field('secret'),
  put: (document, secret) => ({ ...document, secret }),
  delivery: unverified({ fields: [['event_id']] }),
  evidence: { signature: report('the package vk-io'), handshake: report('the package vk-io') },
  steps: [
    'Open the community’s Management → API usage → Callback API: the URL of the table and the secret key. Save the key first.',
    'Confirm the address, and choose the events.',
  ],
  notes: ['VK repeats every event that is not answered with `ok`.'],
  example: ({ id }) => ({
    type: 'message_new',
    group_id: 1,
    event_id: id,
    v: '5.199',
    object: { message: { id: numeric(id), text: 'Привет' } },
  }),
});
