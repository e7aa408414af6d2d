/** Keap. */
import { page } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

export const keap: Sender = tokenInQuery('token', {
  id: 'keap',
  aliases: ['infusionsoft'],
  name: 'Keap (Infusionsoft)',
  evidence: { handshake: page('developer.keap.com, “REST Hook Documentation”', 'November 2026') },
  steps: [
    'Create hooks through the API: `POST /rest/v1/hooks` with `eventKey` and `hookUrl`, the URL of the table followed by `?token=` and the text of the secret.',
    'Keap verifies the URL at once; `POST /rest/v1/hooks/{key}/verify` makes it try again.',
  ],
  notes: [
    'The secret in the header `X-Hook-Secret` is only for the verification: Keap signs no event with it, so there is nothing to learn.',
    'An event names what has changed: fetch it through the API.',
  ],
  example: ({ id, nowMs }) => ({
    event_key: 'contact.edit',
    object_type: 'contact',
    object_keys: [{ id: numeric(id), apiUrl: '', timestamp: isoTime(nowMs) }],
  }),
});
