/** Fitbit. */
import { header, hmac } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, mac } from '../signing.ts';

export const fitbit: Sender = sender('A signature of the body', {
  id: 'fitbit',
  name: 'Fitbit',
  ended: 'Fitbit’s Web API has sent nothing since 2 November 2026: Google Health has taken its place.',
  headers: ['X-Fitbit-Signature'],
  secret: { what: 'the app’s client secret', where: 'dev.fitbit.com → the app' },
  steps: [
    'On dev.fitbit.com open the app and add a subscriber: the URL of the table, type JSON.',
    'Verify it there; then subscribe each user through the API.',
  ],
  notes: ['The key of the signature is the client secret followed by `&`.'],
  expression: (s) =>
    `secure_compare(${header('X-Fitbit-Signature')}, ${hmac(`${s} || '&'`, 'payload', 'sha1', 'base64')})`,
  sign: ({ body, signingKey }) => ({
    headers: { 'X-Fitbit-Signature': mac('sha1', `${signingKey}&`, 'base64', body) },
  }),
  example: ({ id, nowMs }) => [
    {
      collectionType: 'activities',
      date: isoTime(nowMs).slice(0, 10),
      ownerId: id.slice(0, 6).toUpperCase(),
      ownerType: 'user',
      subscriptionId: '1',
    },
  ],
});
