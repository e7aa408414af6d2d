/** Microsoft Teams (outgoing webhooks). */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { same, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const microsoftTeams: Sender = hmacBody({
  id: 'microsoft_teams',
  aliases: ['teams', 'ms_teams', 'msteams'],
  name: 'Microsoft Teams (outgoing webhooks)',
  prefix: 'HMAC ',
  encoding: 'base64',
  key: 'base64',
  headers: ['Authorization'],
  secret: { what: 'the security token, base64', where: 'shown when the outgoing webhook is created' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'In the team open Manage team → Apps → Create an outgoing webhook, with the URL of the table, and copy the security token.',
  ],
  notes: [
    'Teams shows the answer in the channel within 10 seconds: a stored message is answered with an empty one.',
  ],
  makeSecret: (random) => same(random(32).toString('base64')),
  example: ({ id, nowMs }) => ({
    type: 'message',
    id: String(nowMs),
    timestamp: isoTime(nowMs),
    text: '<at>Headgate</at> Grüße',
    from: { id, name: 'Zoë' },
  }),
});
