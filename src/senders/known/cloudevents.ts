/** CloudEvents over HTTP. */
import { code, known } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const cloudevents: Sender = tokenHeader('bearer', {
  id: 'cloudevents',
  name: 'CloudEvents over HTTP (any sender)',
  headers: ['Authorization'],
  secret: chosen(),
  contentType: 'application/cloudevents+json; charset=utf-8',
  delivery: known({ fields: [['source'], ['id']] }, code('cloudevents/spec, cloudevents/spec.md')),
  evidence: {
    handshake: code('cloudevents/spec, cloudevents/http-webhook.md'),
    event: code('cloudevents/spec, cloudevents/spec.md'),
  },
  steps: ['Give the sender the URL of the table and the text of the secret as its bearer token.'],
  notes: [
    'Written for the structured mode. In the binary mode the attributes are headers (`ce-id`, `ce-type` …): INCLUDE HEADER turns them into columns.',
  ],
  example: ({ id, nowMs }) => ({
    specversion: '1.0',
    id: uuid(id),
    source: '/shop/orders',
    type: 'com.example.order.created',
    time: isoTime(nowMs),
    data: { total: '19.90' },
  }),
});
