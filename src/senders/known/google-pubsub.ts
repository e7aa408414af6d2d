/** Google Cloud Pub/Sub, alone and in front of Google Play. */
import { unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

const pubsub = ({ id, nowMs }: { id: string; nowMs: number }, data: object) => ({
  message: {
    messageId: String(numeric(id)),
    publishTime: isoTime(nowMs),
    data: Buffer.from(JSON.stringify(data)).toString('base64'),
    attributes: {},
  },
  subscription: 'projects/shop/subscriptions/headgate',
});

const pubsubNotes = [
  'With authentication switched on, Google also sends a signed token (`Authorization: Bearer …`); its keys change every few days, so it is not checked here.',
  "The message’s data is base64: `convert_from(decode(data->'message'->>'data', 'base64'), 'UTF8')`.",
];

export const googlePubsub: readonly Sender[] = [
  tokenInQuery('token', {
    id: 'google_pubsub',
    aliases: ['pubsub', 'gcp_pubsub'],
    name: 'Google Cloud Pub/Sub (push)',
    delivery: unverified({ fields: [['message', 'messageId']] }),
    steps: [
      'Create a subscription with the delivery type Push and the URL of the table followed by `?token=` and the text of the secret.',
    ],
    notes: pubsubNotes,
    example: (event) => pubsub(event, { order: event.id }),
  }),
  tokenInQuery('token', {
    id: 'google_play',
    aliases: ['play_store', 'google_play_rtdn'],
    name: 'Google Play (real-time developer notifications)',
    delivery: unverified({ fields: [['message', 'messageId']] }),
    steps: [
      'Create a Pub/Sub topic, allow `google-play-developer-notifications@system.gserviceaccount.com` to publish to it, and create a push subscription with the URL of the table followed by `?token=` and the text of the secret.',
      'In the Play Console open Monetize → Monetization setup, enter the topic and send a test notification.',
    ],
    notes: pubsubNotes,
    example: (event) =>
      pubsub(event, {
        version: '1.0',
        packageName: 'com.example.cafe',
        eventTimeMillis: String(event.nowMs),
        subscriptionNotification: { version: '1.0', notificationType: 4, purchaseToken: event.id },
      }),
  }),
];
