/** Frame.io. */
import { report } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const frameIo: Sender = timedHeaders({
  id: 'frame_io',
  aliases: ['frameio'],
  name: 'Frame.io',
  headers: ['X-Frameio-Signature', 'X-Frameio-Request-Timestamp'],
  start: 'v0:',
  join: ':',
  prefix: 'v0=',
  toleranceS: 300,
  secret: { what: 'the webhook’s signing key', where: 'shown when the webhook is created' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open the developer settings → Webhooks → Create with the URL of the table, or through the API.'],
  example: ({ id }) => ({
    type: 'file.ready',
    resource: { id: uuid(id), type: 'file' },
    account: { id: uuid(id) },
    user: { id: uuid(id) },
  }),
});
