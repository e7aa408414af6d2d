/** TikTok for Developers. */
import { report } from '../evidence.ts';
import { timestampedList } from '../timestamped.ts';
import type { Sender } from '../sender.ts';

export const tiktok: Sender = timestampedList({
  id: 'tiktok',
  name: 'TikTok for Developers',
  time: 't',
  version: 's',
  headers: ['TikTok-Signature'],
  toleranceS: 300,
  secret: { what: 'the app’s client secret', where: 'Manage apps → the app' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'In the developer portal open the app → Webhooks and enter the URL of the table as the callback URL.',
  ],
  notes: ['TikTok tries again for 72 hours, more and more rarely.'],
  example: ({ id, nowMs }) => ({
    client_key: id.slice(0, 16),
    event: 'video.publish.completed',
    create_time: Math.floor(nowMs / 1000),
    user_openid: id,
    content: '{}',
  }),
});
