/** ElevenLabs. */
import { ran } from '../evidence.ts';
import { type Sender, textSecret } from '../sender.ts';
import { timestampedList } from '../timestamped.ts';

export const elevenlabs: Sender = timestampedList({
  id: 'elevenlabs',
  name: 'ElevenLabs',
  time: 't',
  version: 'v0',
  toleranceS: 1800,
  headers: ['ElevenLabs-Signature'],
  secret: { what: 'the webhook’s secret', where: 'shown when the webhook is created' },
  evidence: { signature: ran('@elevenlabs/elevenlabs-js') },
  steps: [
    'Create the webhook in the workspace’s settings with the URL of the table and HMAC, and copy the secret.',
  ],
  makeSecret: textSecret('wsec_', 32),
  example: ({ id, nowMs }) => ({
    type: 'post_call_transcription',
    event_timestamp: Math.floor(nowMs / 1000),
    data: { conversation_id: id, status: 'done', transcript: [{ role: 'agent', message: 'Hallo, Zoë' }] },
  }),
});
