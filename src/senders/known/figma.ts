/** Figma. */
import { field } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { chosen, notSigned } from '../token-forms.ts';

export const figma: Sender = sender('A token', {
  id: 'figma',
  name: 'Figma',
  headers: [],
  signatureHeader: null,
  signsBody: false,
  secret: chosen('the passcode'),
  steps: [
    'Create webhooks through the API: `POST /v2/webhooks` with `endpoint`, the URL of the table, and `passcode`.',
  ],
  notes: [
    'The passcode is in the body and therefore in the table: anyone who may read the table can read it.',
    notSigned,
  ],
  expression: (s) => `secure_compare(${field('passcode')}, ${s})`,
  sign: ({ body, signingKey }) => {
    const event = JSON.parse(body.toString()) as object;
    return { headers: {}, body: Buffer.from(JSON.stringify({ ...event, passcode: signingKey })) };
  },
  example: ({ id, nowMs }) => ({
    event_type: 'FILE_UPDATE',
    file_key: id.slice(0, 22),
    file_name: 'Café',
    timestamp: isoTime(nowMs),
    webhook_id: '22',
  }),
});
