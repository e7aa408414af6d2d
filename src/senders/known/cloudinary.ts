/** Cloudinary. */
import { createHash } from 'node:crypto';
import { ran } from '../evidence.ts';
import { fresh, header, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, seconds } from '../signing.ts';

const [signature, time] = ['X-Cld-Signature', 'X-Cld-Timestamp'];

export const cloudinary: Sender = sender('A signature of the body and a timestamp', {
  id: 'cloudinary',
  name: 'Cloudinary',
  toleranceS: 7200,
  headers: [signature, time],
  secret: { what: 'the API secret', where: 'Settings → API Keys' },
  evidence: { signature: ran('cloudinary') },
  steps: [
    'Open Settings → Webhook Notifications → Add Notification URL with the URL of the table, and choose the events; or give `notification_url` with an upload.',
  ],
  notes: [
    'The signature is a SHA-1 digest of the body, the time and the secret. An account that was switched to SHA-256 needs its own expression, with `sha256` in the place of `sha1`.',
    'Cloudinary’s own package allows two hours, and so does this check.',
  ],
  expression: (s) =>
    `${fresh(header(time), 7200)}\n  AND secure_compare(${header(signature)},\n    ` +
    `encode(sha1(payload || ${utf8(`(${header(time)}) || ${s}`)}), 'hex'))`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      [time]: seconds(nowMs),
      [signature]: createHash('sha1')
        .update(body)
        .update(`${seconds(nowMs)}${signingKey}`)
        .digest('hex'),
    },
  }),
  example: ({ id, nowMs }) => ({
    notification_type: 'upload',
    timestamp: isoTime(nowMs),
    request_id: id,
    public_id: 'café/mug',
    bytes: 120253,
  }),
});
