/** PayPal. */
import { code, known, page, ran, silent, vector } from '../evidence.ts';
import { sign } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { header, headerOperand, utf8 } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { isoSeconds, isoTime, privateKey, privateText, publicPem, rsaPair, uuid } from '../signing.ts';

const paypal = ['PAYPAL-TRANSMISSION-SIG', 'PAYPAL-TRANSMISSION-ID', 'PAYPAL-TRANSMISSION-TIME'] as const;

export const paypalSender: Sender = sender('A public key', {
  id: 'paypal',
  secretForm: forms.paypal,
  name: 'PayPal',
  headers: paypal,
  secret: {
    what: 'JSON that contains the webhook’s id and the certificate (PEM): `{"webhook_id": "…", "cert": "-----BEGIN CERTIFICATE-----\\n…"}`',
    where:
      'the id in the app’s webhook settings, the certificate at the URL in the header PAYPAL-CERT-URL of a delivery (on a paypal.com host)',
  },
  delivery: known(
    { fields: [['id']] },
    page(
      'developer.paypal.com/api/webhooks/v1, “Event Resend”: a notification is sent again by its id',
      'November 2026',
    ),
  ),
  retries: {
    when: 'up to 25 times within 3 days',
    signed: 'unsaid',
    from: page('developer.paypal.com/api/rest/webhooks/rest', 'November 2026'),
  },
  answer: { what: 'a 2xx', from: page('developer.paypal.com/api/rest/webhooks/rest', 'November 2026') },
  evidence: {
    signature: [
      ran('paypalrestsdk'),
      vector('paypal/PayPal-Python-SDK, samples/notification/webhook-events/verify_webhook_events.py'),
      page('developer.paypal.com/api/rest/webhooks/rest', 'November 2026'),
    ],
    event: code('paypal/PayPal-Python-SDK, paypalrestsdk/notifications.py'),
    rotation: silent('developer.paypal.com/api/rest/webhooks'),
  },
  steps: [
    'In the Developer Dashboard open the app → Webhooks → Add Webhook with the URL of the table.',
    'Copy the webhook’s id; fetch the certificate by hand and put both into the secret.',
  ],
  notes: [
    'Headgate never fetches a certificate that a request names. PayPal occasionally changes its certificate: then use `ALTER SECRET`.',
    'Of the body PayPal signs the CRC-32, which is no digest: anyone who has seen one request can send other bodies that have the same. Keep requests secret, use HTTPS all the way, and ask PayPal’s API before you rely on an event that costs money.',
    'PayPal specifies no tolerance, and a retry may be days old, so the age is not checked.',
  ],
  expression: (s) =>
    `rsa_verify(${s}::jsonb->>'cert',\n  ${utf8(
      `${headerOperand(paypal[1])} || '|' || ${headerOperand(paypal[2])} || '|' || (${s}::jsonb->>'webhook_id') || '|' || crc32(payload)::text`,
    )},\n  decode(${header(paypal[0])}, 'base64'), 'sha256')`,
  sign: ({ body, nowMs, signingKey, id }) => {
    const keys = JSON.parse(signingKey) as { webhook_id: string; private_key: string };
    const [signature, transmission, time] = paypal;
    const signed = `${uuid(id)}|${isoSeconds(nowMs)}|${keys.webhook_id}|${crc32(body)}`;
    return {
      headers: {
        [transmission]: uuid(id),
        [time]: isoSeconds(nowMs),
        'PAYPAL-AUTH-ALGO': 'SHA256withRSA',
        'PAYPAL-CERT-URL': 'https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270',
        [signature]: sign('sha256', Buffer.from(signed), privateKey(keys.private_key)).toString('base64'),
      },
    };
  },
  paired: true,
  makeSecret: (random) => {
    const pair = rsaPair();
    const webhook = random(9).toString('hex').toUpperCase().slice(0, 17);
    return {
      secret: JSON.stringify({ webhook_id: webhook, cert: publicPem(pair.publicKey) }),
      signingKey: JSON.stringify({ webhook_id: webhook, private_key: privateText(pair.privateKey) }),
    };
  },
  example: ({ id, nowMs }) => ({
    id: `WH-${id.slice(0, 17).toUpperCase()}`,
    create_time: isoTime(nowMs),
    event_type: 'PAYMENT.CAPTURE.COMPLETED',
    resource: { id: '42311647XV020574X', amount: { value: '30.00', currency_code: 'EUR' } },
  }),
});
