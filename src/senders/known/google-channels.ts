/** Google Drive and Calendar. */
import { report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const googleChannels: Sender = tokenHeader('plain', {
  id: 'google_channels',
  aliases: ['google_drive', 'google_calendar'],
  name: 'Google Drive and Calendar (channels)',
  headers: ['X-Goog-Channel-Token'],
  secret: chosen('the text of `token`, at most 256 characters'),
  format: 'text',
  contentType: 'application/json; utf-8',
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Create channels through the API: `files.watch`, `changes.watch` or `events.watch` with `address`, the URL of the table, and `token`, the text of the secret. Create a new one before it ends.',
  ],
  notes: [
    "The bodies are empty and everything is in the headers: clauses such as `INCLUDE HEADER 'x-goog-resource-uri' AS resource_uri`, before WITH, turn them into columns.",
  ],
  eventHeaders: ({ id }) => ({
    'X-Goog-Channel-ID': uuid(id),
    'X-Goog-Message-Number': String(numeric(id)),
    'X-Goog-Resource-ID': id.slice(0, 27),
    'X-Goog-Resource-State': 'update',
    'X-Goog-Resource-URI': 'https://www.googleapis.com/drive/v3/changes?alt=json',
  }),
  example: () => '',
});
