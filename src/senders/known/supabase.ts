/** Supabase auth hooks. */
import { code, none, report } from '../evidence.ts';
import { forms } from '../secret-forms.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { standard } from '../standard-webhooks.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

const hooks = code('supabase/auth bc32168, internal/hooks/hookshttp/hookshttp.go');
const configuration = code('supabase/auth bc32168, internal/conf/configuration.go');

export const supabase: readonly Sender[] = [
  standard({
    id: 'supabase_auth',
    secretForm: forms.hookSecret,
    name: 'Supabase auth hooks',
    keyPrefixes: ['v1,', 'whsec_'],
    separator: ', ',
    delivery: none('Supabase makes another webhook-id for each attempt', hooks),
    retries: { when: 'twice, after 2 seconds, if it got no answer', signed: 'anew', from: hooks },
    answer: { what: 'a 204, or a 200 or 202 with JSON, within 5 seconds', from: hooks },
    evidence: { signature: hooks, secret: configuration, rotation: configuration },
    secret: { what: 'the hook’s secret, `v1,whsec_` and base64', where: 'Authentication → Hooks' },
    steps: [
      'Open Authentication → Hooks → Add hook → HTTPS with the URL of the table, and generate the secret.',
    ],
    notes: [
      'A hook that has to decide something (send an e-mail, add claims) expects an answer that Headgate does not give: use this only for hooks that notify.',
    ],
    example: ({ id, nowMs }) => ({
      metadata: { uuid: uuid(id), time: isoTime(nowMs), name: 'before-user-created' },
      user: { id: uuid(id), email: 'zoe@example.com' },
    }),
  }),
  tokenHeader('plain', {
    id: 'supabase_database',
    name: 'Supabase database webhooks',
    headers: ['Authorization'],
    secret: chosen(),
    evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
    steps: [
      'Open Database → Webhooks → Create: POST, the URL of the table, and a header `Authorization` with the text of the secret.',
    ],
    example: ({ id }) => ({
      type: 'INSERT',
      table: 'orders',
      schema: 'public',
      record: { id: uuid(id) },
      old_record: null,
    }),
  }),
];
