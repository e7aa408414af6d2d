/** Webflow. */
import { ran, report } from '../evidence.ts';
import { freshMs, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { mac } from '../signing.ts';

const webflowTime = 'X-Webflow-Timestamp';

export const webflow: Sender = sender('A signature of the body and a timestamp', {
  id: 'webflow',
  name: 'Webflow',
  toleranceS: 300,
  headers: ['X-Webflow-Signature', webflowTime],
  secret: {
    what: 'the app’s client secret, or `secretKey` of a webhook that a site token has created',
    where: 'in the app’s settings, or in the answer of the call that creates the webhook',
  },
  retries: {
    when: 'up to 3 times, 10 minutes apart',
    afterS: [600, 1200, 1800],
    signed: 'unsaid',
    lastS: 30 * 60,
    from: report('hookdeck/webhook-skills'),
  },
  evidence: { signature: ran('webflow-api') },
  steps: [
    'Create webhooks through the API, `POST /v2/sites/{site_id}/webhooks` with `url`, the URL of the table, or let an app of yours create them.',
  ],
  notes: [
    'Webhooks that are made in the dashboard (site settings) are not signed, and every request of theirs is refused: use the API.',
  ],
  expression: (s) =>
    `${freshMs(header(webflowTime), 300)}\n  AND secure_compare(${header('X-Webflow-Signature')},\n    ` +
    `${hmac(s, `${utf8(`${headerOperand(webflowTime)} || ':'`)} || payload`, 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      [webflowTime]: String(nowMs),
      'X-Webflow-Signature': mac('sha256', signingKey, 'hex', `${nowMs}:`, body),
    },
  }),
  example: ({ id, nowMs }) => ({
    triggerType: 'form_submission',
    payload: { id: id.slice(0, 24), name: 'Contact', submittedAt: nowMs, data: { Name: 'Zoë' } },
  }),
});
