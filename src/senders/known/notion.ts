/** Notion. */
import { known, page, ran, report, silent, unfound, vector } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const notion: Sender = hmacBody({
  id: 'notion',
  name: 'Notion',
  prefix: 'sha256=',
  headers: ['X-Notion-Signature'],
  secret: { what: 'the verification token (`secret_…`)', where: 'it arrives in the first request' },
  delivery: known(
    { fields: [['id']], stays: [['type'], ['entity'], ['data']] },
    report(
      'api-evangelist/notion, its description of the events, August 2026: attempt_number counts the attempts of one event',
    ),
  ),
  retries: {
    when: 'up to 8 times within a day',
    signed: 'unsaid',
    from: report('api-evangelist/notion, its description of the events, August 2026'),
  },
  evidence: {
    signature: [ran('@notionhq/client'), vector('developers.notion.com/reference/webhooks')],
    handshake: page('developers.notion.com/reference/webhooks', 'November 2026'),
    event: report('api-evangelist/notion, its description of the events, August 2026'),
    answer: unfound(),
    rotation: silent('developers.notion.com/reference/webhooks'),
  },
  steps: [
    'Open the integration’s settings → Webhooks → Create a subscription.',
    'Create the secret and the table of this page first, and within ten minutes enter the URL of the table as Webhook URL. Choose the events.',
    'Notion sends its token, which becomes the secret: `SHOW SECRETS` shows where it came from. Print it, once, with `headgate secrets reveal notion_secret`, and paste it into Notion → Verify.',
    "If Notion was late, or `SHOW SECRETS` says that the secret is contested: `ALTER SECRET notion_secret WITH (learn = '10 minutes')`, and have Notion send the token again.",
  ],
  makeSecret: (random) => {
    const secret = `secret_${random(24).toString('hex')}`;
    return { secret, signingKey: secret };
  },
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    timestamp: isoTime(nowMs),
    type: 'page.content_updated',
    entity: { id: uuid(id), type: 'page' },
  }),
});
