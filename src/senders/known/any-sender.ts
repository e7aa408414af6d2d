/** Senders that let their user choose a token. */
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { basicSecret, chosen, tokenHeader } from '../token-forms.ts';

export const anySender: readonly Sender[] = [
  tokenHeader('bearer', {
    id: 'bearer',
    name: 'Any sender with a bearer token',
    headers: ['Authorization'],
    secret: chosen(),
    steps: [
      'In the sender’s webhook settings enter the URL of the table and the token, or a header `Authorization: Bearer …`.',
    ],
    example: ({ id, nowMs }) => ({ id: uuid(id), type: 'order.created', at: isoTime(nowMs) }),
  }),
  tokenHeader('basic', {
    id: 'basic_auth',
    name: 'Any sender with basic authentication',
    headers: ['Authorization'],
    secret: basicSecret,
    steps: ['In the sender’s webhook settings enter the URL of the table, user and password.'],
    example: ({ id, nowMs }) => ({ id: uuid(id), type: 'order.created', at: isoTime(nowMs) }),
  }),
  tokenHeader('plain', {
    id: 'api_key',
    name: 'Any sender with a key in the header X-API-Key',
    headers: ['X-API-Key'],
    secret: chosen(),
    steps: [
      'In the sender’s webhook settings enter the URL of the table and a header `X-API-Key` with the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({ id: uuid(id), type: 'order.created', at: isoTime(nowMs) }),
  }),
];
