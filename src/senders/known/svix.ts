/** Svix. */
import { code, ran, report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import {
  invoice,
  standard,
  standardAsymmetric,
  standardNotes,
  svixRetries,
  whsec,
} from '../standard-webhooks.ts';

export const svix: readonly Sender[] = [
  standard({
    id: 'svix',
    name: 'Svix (any sender that uses it)',
    aliases: ['stytch', 'autumn'],
    prefix: 'svix',
    or: 'webhook',
    secret: whsec('on the endpoint’s page'),
    evidence: {
      signature: [ran('svix'), ran('svix (Python)')],
      rotation: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      secret: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
    },
    retries: svixRetries,
    answer: {
      what: 'a 2xx within 15 seconds',
      from: code('svix/svix-docs a3cf04a, content/receiving/introduction.mdx'),
    },
    steps: [
      'Add the URL of the table as an endpoint in the sender’s Svix portal and copy the signing secret.',
    ],
    notes: [
      ...standardNotes,
      "Headers that begin with `webhook-` instead of `svix-` are read as well; then the id is in `webhook-id`: `dedupe = 'header:webhook-id'`, or `USING standard_webhooks`.",
    ],
    example: invoice,
  }),
  standardAsymmetric({
    id: 'svix_ed25519',
    name: 'Svix with Ed25519 (v1a)',
    prefix: 'svix',
    retries: svixRetries,
    secret: { what: 'the public key, `whpk_` and base64', where: 'on the endpoint’s page' },
    evidence: {
      signature: code('svix/svix-webhooks, server/svix-server'),
      rotation: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
      secret: code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
    },
    steps: ['Add the URL of the table as an endpoint in the sender’s Svix portal and copy the public key.'],
    example: invoice,
  }),
];
