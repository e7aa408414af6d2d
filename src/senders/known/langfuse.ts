/** Langfuse. */
import { code, ran, unverified } from '../evidence.ts';
import { timestampedList } from '../timestamped.ts';
import { textSecret, type Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const langfuse: Sender = timestampedList({
  id: 'langfuse',
  name: 'Langfuse',
  time: 't',
  version: 'v1',
  headers: ['X-Langfuse-Signature'],
  toleranceS: 300,
  secret: {
    what: 'the automation’s signing secret (`lf-whsec_…`)',
    where: 'shown when the webhook is created',
  },
  delivery: unverified({ fields: [['id']] }),
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      code('langfuse/langfuse 6275144, packages/shared/src/encryption/signature.ts'),
    ],
    secret: code('langfuse/langfuse 6275144, packages/shared/src/encryption/signature.ts'),
  },
  steps: ['Open Prompts → Automations → Create automation with the URL of the table, and copy the secret.'],
  makeSecret: textSecret('lf-whsec_', 16),
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    timestamp: isoTime(nowMs),
    type: 'prompt-version',
    action: 'created',
    prompt: { name: 'café' },
  }),
});
