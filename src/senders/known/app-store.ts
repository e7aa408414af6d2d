/** App Store Server Notifications. */
import { body } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { es256, p256Pair, privateKey, privateText, publicPem, token, uuid } from '../signing.ts';

export const appStore: Sender = sender('A public key', {
  id: 'app_store',
  aliases: ['apple', 'app_store_server', 'apple_app_store'],
  name: 'App Store Server Notifications (version 2)',
  secretForm: forms.ecPem,
  headers: [],
  signatureHeader: null,
  signsBody: false,
  secret: {
    what: 'Apple’s signing certificate (PEM): the first of `x5c` in the header of `signedPayload`',
    where: 'in a notification; compare its issuer with Apple’s certificate authority before you trust it',
  },
  steps: [
    'In App Store Connect open the app → App Information → App Store Server Notifications, and enter the URL of the table for production or the sandbox, version 2.',
  ],
  notes: [
    'Apple signs for all apps with the same certificate: compare `bundleId`, in the `data` of the signed content, before you rely on a notification.',
    'The body is one signed token; the check verifies its signature with the certificate in the secret, and does not follow the chain that the token names. Apple changes the certificate about every two years: then use `ALTER SECRET`.',
    "Its content is in the middle part: `convert_from(decode(rpad(translate(split_part(data->>'signedPayload', '.', 2), '-_', '+/'), (length(split_part(data->>'signedPayload', '.', 2)) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::jsonb`; `notificationUUID` there identifies a repeated notification.",
  ],
  // What devices hold about a purchase is signed by Apple, too, but has no type of notification.
  expression: (s) => `jwt_verify(${body}->>'signedPayload', ${s})->>'notificationType' IS NOT NULL`,
  sign: ({ body, signingKey, nowMs }) => {
    const key = privateKey(signingKey);
    const claims = JSON.parse(body.toString()) as object;
    const signedPayload = token({ alg: 'ES256', x5c: [] }, { ...claims, signedDate: nowMs }, es256(key));
    return { headers: {}, body: Buffer.from(JSON.stringify({ signedPayload })) };
  },
  paired: true,
  makeSecret: () => {
    const pair = p256Pair();
    return { secret: publicPem(pair.publicKey), signingKey: privateText(pair.privateKey) };
  },
  example: ({ id }) => ({
    notificationType: 'DID_RENEW',
    notificationUUID: uuid(id),
    version: '2.0',
    data: { bundleId: 'com.example.cafe', environment: 'Production' },
  }),
});
