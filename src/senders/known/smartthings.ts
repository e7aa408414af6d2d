/** SmartThings. */
import { code } from '../evidence.ts';
import { createHash, sign } from 'node:crypto';
import { header, headerOperand, utf8 } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, privateKey, rsaSecret, uuid } from '../signing.ts';

const digest = (body: Buffer) => `SHA-256=${createHash('sha256').update(body).digest('base64')}`;

/** What HTTP signatures of that draft cover: the request, the digest of its body, its date. */
const signedHeaders = 'headers="(request-target) digest date"';

export const smartthings: Sender = sender('A public key', {
  id: 'smartthings',
  name: 'SmartThings (webhook SmartApps)',
  secretForm: forms.pem,
  headers: ['Authorization', 'Digest', 'Date'],
  secret: {
    what: 'the certificate of the key that SmartThings signs with (PEM)',
    where: '`https://key.smartthings.com` followed by the `keyId` of a request’s `Authorization`',
  },
  evidence: {
    signature: code('SmartThingsCommunity/smartapp-sdk-nodejs, lib/smart-app.js'),
    handshake: code('SmartThingsCommunity/smartapp-sdk-nodejs, lib/smart-app.js'),
  },
  steps: [
    'Create the table first, with any certificate, and register the app with the URL of the table: SmartThings sends a PING, which is answered, and a CONFIRMATION, which is refused and kept.',
    "Read the `keyId`: `SELECT headers->>'authorization' FROM headgate.rejected_requests WHERE table_name = 'smartthings_events' ORDER BY id DESC LIMIT 1`. Fetch the certificate from key.smartthings.com, and `ALTER SECRET smartthings_secret AS '-----BEGIN CERTIFICATE-----…'`.",
    "Make SmartThings confirm again, or retry the request that was kept: it is now stored as a row. Check that the host of `data->'confirmationData'->>'confirmationUrl'` is api.smartthings.com, and open it.",
  ],
  notes: [
    'SmartThings signs for all apps with its own key, and does not sign the host: compare `appId` before you rely on a request.',
    'The path is signed: a proxy in front must not change it. The date is signed but not compared, so an old request is accepted again.',
    'Every request is answered like an EVENT. Configuration requests (CONFIGURATION, INSTALL, UPDATE) need other answers, which an application has to give.',
    'SmartThings changes its key: if requests are refused with 401, look at the `keyId` again.',
  ],
  expression: (s) =>
    `${header('Authorization')} LIKE '%${signedHeaders}%'\n` +
    `  AND secure_compare(replace(replace(${header('Digest')}, 'SHA-256=', ''), 'SHA256=', ''), encode(sha256(payload), 'base64'))\n` +
    `  AND rsa_verify(${s}, ${utf8(
      `'(request-target): post ' || path\n      || E'\\ndigest: ' || ${headerOperand('Digest')} || E'\\ndate: ' || ${headerOperand('Date')}`,
    )},\n    decode(split_part(split_part(${header('Authorization')}, 'signature="', 2), '"', 1), 'base64'), 'sha256')`,
  sign: ({ body, url, nowMs, signingKey }) => {
    const headers = { Digest: digest(body), Date: new Date(nowMs).toUTCString() };
    const { pathname } = new URL(url);
    const text = `(request-target): post ${pathname}\ndigest: ${headers.Digest}\ndate: ${headers.Date}`;
    const made = sign('sha256', Buffer.from(text), privateKey(signingKey)).toString('base64');
    const key = `keyId="/pl/useast1/72-6b-4a-7f-a5-e5-be-31-a5-a4-be-1f-6d-0c-2d-6e"`;
    const Authorization = `Signature ${key},${signedHeaders},algorithm="rsa-sha256",signature="${made}"`;
    return { headers: { ...headers, Authorization } };
  },
  paired: true,
  makeSecret: rsaSecret,
  example: ({ id, nowMs }) => ({
    lifecycle: 'EVENT',
    executionId: uuid(id),
    appId: uuid(id),
    eventData: {
      installedApp: { installedAppId: uuid(id), locationId: uuid(id) },
      events: [
        {
          eventTime: isoTime(nowMs),
          eventType: 'DEVICE_EVENT',
          deviceEvent: { eventId: uuid(id), capability: 'switch', attribute: 'switch', value: 'on' },
        },
      ],
    },
  }),
});
