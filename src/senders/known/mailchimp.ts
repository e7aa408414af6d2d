/** Mailchimp. */
import { code, known, report, silent } from '../evidence.ts';
import { type Sender, type SenderSpec, formType } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';
import { tokenInQuery } from '../token-forms.ts';

const documented = code('mailchimp/fern-marketing-api-docs 049af8b, subscribe-to-webhooks');

const event: Pick<SenderSpec, 'contentType' | 'delivery' | 'answer' | 'example'> = {
  contentType: formType,
  delivery: known(
    { fields: [['type'], ['data[id]'], ['fired_at']] },
    documented,
    'Two changes of one contact in the same second have the same: `dedupe` keeps the second as `delivery_differs`, a primary key does not.',
  ),
  answer: { what: 'a 200 within 10 seconds', from: documented },
  example: ({ id, nowMs }) =>
    new URLSearchParams({
      type: 'subscribe',
      fired_at: isoTime(nowMs).slice(0, 19).replace('T', ' '),
      'data[id]': id.slice(0, 10),
      'data[email]': 'zoe@example.com',
    }).toString(),
};
const form = 'The body is a form: its fields become a JSON object, with names such as `data[email]`.';
const retries = {
  when: 'within 75 minutes, more and more rarely',
  signed: 'unsaid',
  from: documented,
} as const;

export const mailchimp: readonly Sender[] = [
  tokenInQuery('secret', {
    id: 'mailchimp',
    name: 'Mailchimp (audiences, token in the URL)',
    ...event,
    retries,
    evidence: {
      signature: report('the catalogue of webhook sources of trigger.dev, July 2026'),
      handshake: report('public tools'),
      event: documented,
      rotation: silent('mailchimp/fern-marketing-api-docs 049af8b'),
    },
    steps: [
      'Open Audience → Settings → Webhooks → Create with the URL of the table followed by `?secret=` and the text of the secret.',
    ],
    notes: [
      form,
      'Webhooks that Mailchimp makes now are signed, too: better use [`mailchimp_signed`](mailchimp_signed.md).',
    ],
  }),
  timestampedList({
    id: 'mailchimp_signed',
    name: 'Mailchimp (audiences, signed)',
    time: 't',
    version: 'v1',
    toleranceS: 300,
    headers: ['X-Mailchimp-Signature'],
    secret: {
      what: 'the `signing_secret`',
      where: 'shown once, in the answer to the call that creates the webhook',
    },
    ...event,
    retries: { ...retries, lastS: 75 * 60 },
    evidence: {
      signature: documented,
      handshake: report('public tools'),
      secret: documented,
      event: documented,
      rotation: documented,
    },
    steps: [
      'Create the webhook through the API, `POST /3.0/lists/{list_id}/webhooks` with `url`, the URL of the table, or under Audience → Settings → Webhooks, and keep `signing_secret`.',
    ],
    notes: [
      form,
      'A webhook that is older than the signatures has `signing_enabled: false`: delete it and create it again. So is the secret changed.',
    ],
  }),
];
