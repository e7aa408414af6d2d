/** Vapi. */
import { ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const vapi: Sender = hmacBody({
  id: 'vapi',
  name: 'Vapi',
  headers: ['X-Vapi-Signature'],
  secret: { what: 'the server’s secret', where: 'you choose it' },
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Set `server.url` of the assistant to the URL of the table, with a credential of the type HMAC, SHA-256, header `x-vapi-signature`.',
  ],
  notes: [
    'Messages that expect an answer (`assistant-request`, `tool-calls`) are for an application: choose the others in `serverMessages`.',
  ],
  example: ({ id, nowMs }) => ({
    message: {
      type: 'end-of-call-report',
      timestamp: nowMs,
      call: { id: uuid(id) },
      endedReason: 'customer-ended-call',
    },
  }),
});
