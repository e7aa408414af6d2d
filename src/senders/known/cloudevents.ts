/** CloudEvents over HTTP. */
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const cloudevents: Sender = tokenHeader('bearer', {
  id: 'cloudevents',
  name: 'CloudEvents over HTTP (any sender)',
  headers: ['Authorization'],
  secret: chosen(),
  contentType: 'application/cloudevents+json; charset=utf-8',
  deliveryId: { fields: [['source'], ['id']] },
  steps: ['Give the sender the URL of the table and the text of the secret as its bearer token.'],
  notes: [
    'Written for the structured mode. In the binary mode the attributes are headers (`ce-id`, `ce-type` …): INCLUDE HEADER turns them into columns.',
  ],
  source: 'the specification “HTTP 1.1 Web Hooks for Event Delivery” of CloudEvents',
  example: ({ id, nowMs }) => ({
    specversion: '1.0',
    id: uuid(id),
    source: '/shop/orders',
    type: 'com.example.order.created',
    time: isoTime(nowMs),
    data: { total: '19.90' },
  }),
});
