/** Webflow. */
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
    what: 'the app’s client secret, or the webhook’s secret key',
    where: 'shown when the webhook is created',
  },
  steps: [
    'Create the webhook in the site’s settings (Apps & integrations) or through the API, with the URL of the table.',
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
