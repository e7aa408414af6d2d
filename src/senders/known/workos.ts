/** WorkOS. */
import { ran, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const workos: Sender = timestampedList({
  id: 'workos',
  aliases: ['work_os'],
  name: 'WorkOS',
  time: 't',
  version: 'v1',
  milliseconds: true,
  toleranceS: 180,
  headers: ['WorkOS-Signature'],
  secret: { what: 'the endpoint’s secret', where: 'Dashboard → Webhooks → the endpoint' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: [ran('@trigger.dev/core'), ran('@workos-inc/node')] },
  steps: [
    'Open Webhooks in the dashboard, create an endpoint with the URL of the table, and copy its secret.',
  ],
  example: ({ id, nowMs }) => ({
    id: `event_${id.slice(0, 26)}`,
    event: 'dsync.user.created',
    created_at: isoTime(nowMs),
    data: { id: 'directory_user_01E1JG7J09H96KYP8HM9B0G5SJ', state: 'active' },
  }),
});
