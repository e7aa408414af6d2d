/** Dropbox Sign (HelloSign). */
import { ran } from '../evidence.ts';
import { hmac, utf8 } from '../expressions.ts';
import { formType, sender, type Sender } from '../sender.ts';
import { mac, seconds } from '../signing.ts';

export const dropboxSign: Sender = sender('A signature of the URL or of fields', {
  id: 'dropbox_sign',
  aliases: ['hellosign'],
  name: 'Dropbox Sign (HelloSign)',
  headers: [],
  signatureHeader: null,
  signsBody: false,
  contentType: formType,
  expression: (s) => {
    const event = "(form(payload)->>'json')::jsonb->'event'";
    return `secure_compare(${event}->>'event_hash',\n  ${hmac(s, utf8(`(${event}->>'event_time') || (${event}->>'event_type')`), 'sha256', 'hex')})`;
  },
  sign: ({ body, signingKey }) => {
    const json = JSON.parse(new URLSearchParams(body.toString()).get('json') ?? '{}') as {
      event: Record<string, string>;
    };
    const { event_time: time = '', event_type: type = '' } = json.event;
    json.event['event_hash'] = mac('sha256', signingKey, 'hex', time, type);
    return { headers: {}, body: Buffer.from(new URLSearchParams({ json: JSON.stringify(json) }).toString()) };
  },
  secret: { what: 'the API key', where: 'Settings → API' },
  evidence: { signature: ran('@dropbox/sign') },
  steps: [
    'Open Settings → API → Account callback, or the app’s event callback, with the URL of the table. The test expects the answer `Hello API Event Received`, which `USING dropbox_sign` gives.',
  ],
  notes: [
    'Only the time and the type of the event are signed. The request is multipart/form-data; its field `json` is a text.',
  ],
  example: ({ id, nowMs }) =>
    new URLSearchParams({
      json: JSON.stringify({
        event: { event_time: seconds(nowMs), event_type: 'signature_request_signed' },
        signature_request: { signature_request_id: id, title: 'Vertrag' },
      }),
    }).toString(),
});
