/** Dub. */
import { code, known } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { textSecret, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const dub: Sender = hmacBody({
  id: 'dub',
  name: 'Dub',
  headers: ['Dub-Signature'],
  secret: { what: 'the webhook’s signing secret', where: 'Settings → Webhooks → the webhook' },
  delivery: known(
    { fields: [['id']] },
    code(
      'dubinc/dub 1de955f, apps/web/lib/webhook/qstash.ts, which leaves retries of one message to a queue',
    ),
  ),
  evidence: {
    signature: code('dubinc/dub 1de955f, apps/web/lib/webhook/signature.ts'),
    secret: code('dubinc/dub 1de955f, apps/web/lib/webhook/secret.ts'),
  },
  retries: {
    when: 'after 12 seconds, 2.5 and 30 minutes, 6 hours, then daily, 20 times in all',
    signed: 'as at first',
    lastS: 16 * 86_400,
    from: code('dubinc/docs, docs/webhooks/introduction.mdx'),
  },
  answer: { what: 'a 2xx', from: code('dubinc/docs, docs/webhooks/introduction.mdx') },
  steps: ['Open Settings → Webhooks → Create with the URL of the table, and choose the events.'],
  makeSecret: textSecret('whsec_', 16),
  example: ({ id, nowMs }) => ({
    id: `evt_${id.slice(0, 24)}`,
    event: 'link.clicked',
    createdAt: isoTime(nowMs),
    data: { link: { key: 'café' } },
  }),
});
