/** SendGrid event webhook. */
import { code, none, ran, report, vector } from '../evidence.ts';
import { sign } from 'node:crypto';
import { fresh, header, utf8 } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { p256Pair, privateKey, privateText, seconds } from '../signing.ts';

const sendgridTime = 'X-Twilio-Email-Event-Webhook-Timestamp';

const sendgridSignature = 'X-Twilio-Email-Event-Webhook-Signature';

/** It tries again for 24 hours, nobody says with which time, and its own package compares none. */
const toleranceS = 25 * 3_600;

export const sendgrid: Sender = sender('A public key', {
  id: 'sendgrid',
  aliases: ['twilio_sendgrid'],
  secretForm: forms.ecKey,
  name: 'SendGrid event webhook',
  toleranceS,
  headers: [sendgridSignature, sendgridTime],
  secret: {
    what: 'the verification key: an ECDSA public key in base64',
    where: 'Settings → Mail Settings → Event Webhooks',
  },
  delivery: none(
    'SendGrid’s `sg_event_id` is missing on unsubscribes, and changes when an event is sent again',
    report('the issues sendgrid/docs 2862 and sendgrid/sendgrid-nodejs 1435'),
  ),
  events: { what: 'event' },
  retries: {
    when: 'for 24 hours, more and more rarely',
    signed: 'unsaid',
    lastS: 24 * 3_600,
    from: code(
      'sendgrid/docs c3eb3fe, content/docs/for-developers/tracking-events/getting-started-event-webhook.md',
    ),
  },
  answer: {
    what: 'a 2xx; no time is named',
    from: code(
      'sendgrid/docs c3eb3fe, content/docs/for-developers/tracking-events/getting-started-event-webhook.md',
    ),
  },
  evidence: {
    signature: [ran('@sendgrid/eventwebhook'), vector('sendgrid/sendgrid-nodejs, eventwebhook.spec.js')],
    rotation: code(
      'sendgrid/docs c3eb3fe, getting-started-event-webhook-security-features.md: signing is switched off, which deletes the keys, and on again',
    ),
  },
  steps: [
    'Open Settings → Mail Settings → Event Webhooks and create one with the URL of the table.',
    'Switch “Signature Verification” on, save, and copy the verification key.',
  ],
  notes: ['One request is an array of events; it is stored as one row.'],
  expression: (s) =>
    `${fresh(header(sendgridTime), toleranceS)}\n  AND ecdsa_verify(decode(${s}, 'base64'), ${utf8(header(sendgridTime))} || payload,\n    ` +
    `decode(${header(sendgridSignature)}, 'base64'), 'sha256')`,
  sign: ({ body, nowMs, signingKey }) => {
    const signed = Buffer.concat([Buffer.from(seconds(nowMs)), body]);
    return {
      headers: {
        [sendgridTime]: seconds(nowMs),
        [sendgridSignature]: sign('sha256', signed, privateKey(signingKey)).toString('base64'),
      },
    };
  },
  paired: true,
  makeSecret: () => {
    const pair = p256Pair();
    return {
      secret: pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
      signingKey: privateText(pair.privateKey),
    };
  },
  // Their bodies end with a line break, which is signed.
  example: ({ id, nowMs }) =>
    `${JSON.stringify([
      {
        email: 'zoe@example.com',
        event: 'delivered',
        sg_event_id: id,
        timestamp: Math.floor(nowMs / 1000),
      },
    ])}\r\n`,
});
