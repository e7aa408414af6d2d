/** Mailchimp. */
import { report } from '../evidence.ts';
import { type Sender, formType } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

export const mailchimp: Sender = tokenInQuery('secret', {
  id: 'mailchimp',
  name: 'Mailchimp (audiences)',
  contentType: formType,
  evidence: {
    signature: report('the catalogue of webhook sources of trigger.dev, July 2026'),
    handshake: report('public tools'),
  },
  steps: [
    'Open Audience → Settings → Webhooks → Create with the URL of the table followed by `?secret=` and the text of the secret.',
  ],
  notes: ['The body is a form: its fields become a JSON object, with names such as `data[email]`.'],
  example: ({ id, nowMs }) =>
    new URLSearchParams({
      type: 'subscribe',
      fired_at: isoTime(nowMs).slice(0, 19).replace('T', ' '),
      'data[id]': id.slice(0, 10),
      'data[email]': 'zoe@example.com',
    }).toString(),
});
