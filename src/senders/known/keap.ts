/** Keap. */
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

export const keap: Sender = tokenInQuery('token', {
  id: 'keap',
  name: 'Keap (Infusionsoft)',
  steps: [
    'Create hooks through the API: `POST /rest/v1/hooks` with `eventKey` and `hookUrl`, the URL of the table followed by `?token=` and the text of the secret.',
    'Keap verifies the URL at once; `POST /rest/v1/hooks/{key}/verify` makes it try again.',
  ],
  notes: [
    'The secret in the header `X-Hook-Secret` is only for the verification: Keap signs no event with it, so there is nothing to learn.',
    'An event names what has changed: fetch it through the API.',
  ],
  source: 'Keap’s page “REST Hook Documentation” and the description of its API',
  example: ({ id, nowMs }) => ({
    event_key: 'contact.edit',
    object_type: 'contact',
    object_keys: [{ id: numeric(id), apiUrl: '', timestamp: isoTime(nowMs) }],
  }),
});
