/** Plain. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const plain: Sender = hmacBody({
  id: 'plain',
  name: 'Plain',
  headers: ['Plain-Request-Signature'],
  secret: { what: 'the workspace’s HMAC secret', where: 'Settings → Request signing' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: [ran('@team-plain/typescript-sdk'), ran('@trigger.dev/core')] },
  steps: ['Open Settings → Webhooks → Add webhook target with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: `pEv_${id.slice(0, 26)}`,
    type: 'thread.thread_created',
    timestamp: isoTime(nowMs),
    workspaceId: `w_${id.slice(0, 26)}`,
    payload: {},
    webhookMetadata: { webhookDeliveryAttemptNumber: 1 },
  }),
});
