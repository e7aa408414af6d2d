/** Standard Webhooks. */
import { code, ran } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { invoice, standard, standardAsymmetric, standardNotes, whsec } from '../standard-webhooks.ts';

export const standardWebhooks: readonly Sender[] = [
  standard({
    id: 'standard_webhooks',
    aliases: [
      'replicate',
      'brex',
      'browserbase',
      'composio',
      'granola',
      'incident_io',
      'liveblocks',
      'lob',
      'loops',
      'recall_ai',
      'render',
    ],
    or: 'svix',
    name: 'Standard Webhooks (any sender that follows it)',
    secret: whsec('in the sender’s webhook settings'),
    evidence: {
      signature: [ran('replicate'), ran('standardwebhooks'), ran('standardwebhooks (Python)')],
      rotation: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      secret: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      event: code('standard-webhooks/standard-webhooks b2fa7b8, spec/standard-webhooks.md'),
    },
    answer: {
      what: 'a 2xx, mostly within 15 to 30 seconds',
      from: code('standard-webhooks/standard-webhooks b2fa7b8, spec/standard-webhooks.md'),
    },
    steps: ['Add the URL of the table in the sender’s webhook settings and copy the signing secret.'],
    notes: [...standardNotes, 'Headers that begin with `svix-` instead of `webhook-` are read as well.'],
    example: invoice,
  }),
  standardAsymmetric({
    id: 'standard_webhooks_ed25519',
    name: 'Standard Webhooks with Ed25519 (v1a)',
    secret: { what: 'the public key, `whpk_` and base64', where: 'in the sender’s webhook settings' },
    evidence: {
      signature: [code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md')],
      rotation: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      secret: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      event: code('standard-webhooks/standard-webhooks b2fa7b8, spec/standard-webhooks.md'),
    },
    answer: {
      what: 'a 2xx, mostly within 15 to 30 seconds',
      from: code('standard-webhooks/standard-webhooks b2fa7b8, spec/standard-webhooks.md'),
    },
    steps: ['Add the URL of the table in the sender’s webhook settings and copy the public key.'],
    example: invoice,
  }),
];
