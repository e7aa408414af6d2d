/** AWS EventBridge API destinations. */
import { unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const awsEventbridge: Sender = tokenHeader('bearer', {
  id: 'aws_eventbridge',
  aliases: ['amazon_eventbridge', 'eventbridge'],
  name: 'AWS EventBridge API destinations',
  headers: ['Authorization'],
  secret: chosen(),
  delivery: unverified({ fields: [['id']] }),
  steps: [
    'Create a connection with API key: name `Authorization`, value `Bearer ` and the text of the secret.',
    'Create an API destination with that connection, method POST and the URL of the table; use it as a rule’s target.',
  ],
  example: ({ id, nowMs }) => ({
    version: '0',
    id: uuid(id),
    'detail-type': 'Object Created',
    source: 'aws.s3',
    time: isoTime(nowMs),
    detail: { bucket: { name: 'shop' } },
  }),
});
