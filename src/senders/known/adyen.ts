/** Adyen. */
import { known, page, ran } from '../evidence.ts';
import { field, utf8 } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, same, sender } from '../sender.ts';
import { isoTime, mac, numeric } from '../signing.ts';

const adyenPath = ['notificationItems', '0', 'NotificationRequestItem'];

const adyenItem = adyenPath.join(',');

const adyenFields = [
  'pspReference',
  'originalReference',
  'merchantAccountCode',
  'merchantReference',
  'amount,value',
  'amount,currency',
  'eventCode',
  'success',
];

const adyenSigned = adyenFields
  .map((path) => `coalesce(${field(`${adyenItem},${path}`)}, '')`)
  .join(`\n      || ':' || `);

interface AdyenNotification {
  notificationItems: [{ NotificationRequestItem: Record<string, unknown> }];
}

/** The text or number at a path; an empty text if there is none. */
function textAt(value: unknown, path: string): string {
  const found = path
    .split(',')
    .reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value);
  return typeof found === 'string' || typeof found === 'number' ? String(found) : '';
}

const retries = {
  when: 'three times within half a minute, then after 2, 5, 10, 15 and 30 minutes, after 1, 2, 4 and 8 hours, for up to 30 days',
  afterS: [9, 27, 54, 174, 474, 1074, 1974, 3774, 7374, 14574, 28974, 57774],
  signed: 'unsaid',
  from: page('docs.adyen.com, “Troubleshoot webhooks”', 'November 2026'),
} as const;
const answer = {
  what: 'a 2xx within 10 seconds',
  from: page('docs.adyen.com, “Troubleshoot webhooks” and “Sellers screening: Webhooks”', 'November 2026'),
};
const rotation = page(
  'docs.adyen.com, “Verify HMAC signatures”: a new key is generated, and signs once it is saved',
  'November 2026',
);

export const adyen: readonly Sender[] = [
  hmacBody({
    id: 'adyen_banking',
    name: 'Adyen (banking, management, platforms)',
    encoding: 'base64',
    key: 'hex',
    headers: ['HmacSignature'],
    secret: { what: 'the HMAC key, 64 hexadecimal digits', where: 'in the webhook’s security settings' },
    retries,
    answer,
    evidence: { signature: ran('@adyen/api-library'), secret: ran('@adyen/api-library'), rotation },
    steps: [
      'In the Customer Area open Developers → Webhooks and choose the webhook.',
      'Server URL: the URL of the table. Generate an HMAC key under Security and save.',
    ],
    makeSecret: (random) => {
      const secret = random(32).toString('hex').toUpperCase();
      return { secret, signingKey: secret };
    },
    example: ({ id, nowMs }) => ({
      type: 'balancePlatform.payment.created',
      timestamp: isoTime(nowMs),
      data: { id: id.slice(0, 16).toUpperCase(), amount: { currency: 'EUR', value: 1000 } },
    }),
  }),
  sender('A signature of the URL or of fields', {
    id: 'adyen',
    secretForm: forms.hex,
    name: 'Adyen (payments)',
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: { what: 'the HMAC key, 64 hexadecimal digits', where: 'in the webhook’s security settings' },
    delivery: known(
      {
        fields: [
          [...adyenPath, 'pspReference'],
          [...adyenPath, 'eventCode'],
          [...adyenPath, 'success'],
        ],
      },
      page('docs.adyen.com, “Handle webhook events”', 'November 2026'),
      'Other fields of a repeated notification may differ: it is then kept with the refused requests, as `delivery_differs`.',
    ),
    retries,
    answer,
    evidence: {
      signature: ran('@adyen/api-library'),
      secret: ran('@adyen/api-library'),
      rotation,
      event: page('docs.adyen.com, “Handle webhook events”', 'November 2026'),
    },
    steps: [
      'In the Customer Area open Developers → Webhooks → Standard webhook.',
      'Server URL: the URL of the table, method JSON. Generate an HMAC key under Security and save.',
    ],
    notes: [
      'The signature covers eight fields of the first item (references, account, amount, event, success), not the rest of the body.',
      'Adyen accepts any 2xx in place of `[accepted]`.',
    ],
    expression: (s) =>
      `secure_compare(${field(`${adyenItem},additionalData,hmacSignature`)},\n  ` +
      `encode(hmac(decode(${s}, 'hex'), ${utf8(adyenSigned)}, 'sha256'), 'base64'))`,
    sign: ({ body, signingKey }) => {
      const notification = JSON.parse(body.toString()) as AdyenNotification;
      const item = notification.notificationItems[0].NotificationRequestItem;
      const signed = adyenFields.map((path) => textAt(item, path)).join(':');
      const hmacSignature = mac('sha256', Buffer.from(signingKey, 'hex'), 'base64', signed);
      item['additionalData'] = { ...(item['additionalData'] as object | undefined), hmacSignature };
      return { headers: {}, body: Buffer.from(JSON.stringify(notification)) };
    },
    makeSecret: (random) => same(random(32).toString('hex').toUpperCase()),
    example: ({ id, nowMs }) => ({
      live: 'false',
      notificationItems: [
        {
          NotificationRequestItem: {
            pspReference: id.slice(0, 16).toUpperCase(),
            merchantAccountCode: 'AcmeECOM',
            merchantReference: `order-${numeric(id)}`,
            amount: { value: 1130, currency: 'EUR' },
            eventCode: 'AUTHORISATION',
            eventDate: isoTime(nowMs),
            success: 'true',
          },
        },
      ],
    }),
  }),
];
