/** The Standard Webhooks specification and the senders that follow it. */
import { sign } from 'node:crypto';
import { fresh, header, headerOperand, utf8 } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Draft, type Sender, type SenderSpec, same, sender } from './sender.ts';
import {
  ed25519Pair,
  isoTime,
  mac,
  numeric,
  privateKey,
  privateText,
  rawPublic,
  seconds,
  uuid,
} from './signing.ts';

type Prefix = 'webhook' | 'svix';

const names = (prefix: Prefix) => [`${prefix}-signature`, `${prefix}-id`, `${prefix}-timestamp`] as const;

const signedBytes = (prefix: Prefix) => {
  const [, id, time] = names(prefix);
  return `${utf8(`${headerOperand(id)} || '.' || ${headerOperand(time)} || '.'`)} || payload`;
};

const messageId = (draft: Draft) => `msg_${draft.id.slice(0, 27)}`;

interface StandardSpec extends Omit<SenderSpec, 'headers'> {
  readonly prefix?: Prefix;
  /** What precedes the key's base64 in the secret, outermost first. */
  readonly keyPrefixes?: readonly string[];
}

const standardNotes = [
  'The signature’s header is a list; while a secret is being changed it contains several signatures, and any of them may match.',
];

/** Version 1: HMAC-SHA256. */
function standard(spec: StandardSpec): Sender {
  const { prefix = 'webhook', keyPrefixes = ['whsec_'], ...rest } = spec;
  const [signature, id, time] = names(prefix);
  return sender('Standard Webhooks', {
    headers: [signature, id, time],
    toleranceS: 300,
    deliveryId: { header: id },
    notes: standardNotes,
    expression: (s) => {
      const key = keyPrefixes.reduce((text, start) => `replace(${text}, '${start}', '')`, s);
      return (
        `${fresh(header(time), 300)}\n  AND secure_compare_any('v1,' || encode(hmac(decode(${key}, 'base64'),\n      ` +
        `${signedBytes(prefix)}, 'sha256'), 'base64'),\n    string_to_array(${header(signature)}, ' '))`
      );
    },
    sign: (draft) => {
      const key = keyPrefixes.reduce((text, start) => text.replace(start, ''), draft.signingKey);
      const [message, stamp] = [messageId(draft), seconds(draft.nowMs)];
      const value = mac('sha256', Buffer.from(key, 'base64'), 'base64', `${message}.${stamp}.`, draft.body);
      return { headers: { [id]: message, [time]: stamp, [signature]: `v1,${value}` } };
    },
    secretForm: forms.whsec,
    makeSecret: (random) => same(`${keyPrefixes.join('')}${random(24).toString('base64')}`),
    ...rest,
  });
}

/** Version 1a: Ed25519. */
function standardAsymmetric(spec: StandardSpec): Sender {
  const { prefix = 'webhook', ...rest } = spec;
  const [signature, id, time] = names(prefix);
  return sender('A public key', {
    headers: [signature, id, time],
    toleranceS: 300,
    deliveryId: { header: id },
    expression: (s) => {
      const verified = (place: number) =>
        `ed25519_verify(decode(replace(${s}, 'whpk_', ''), 'base64'),\n    ${signedBytes(prefix)},\n    ` +
        `decode(split_part(split_part(' ' || ${headerOperand(signature)}, ' v1a,', ${place}), ' ', 1), 'base64'))`;
      return `${fresh(header(time), 300)}\n  AND (${verified(2)}\n  OR ${verified(3)})`;
    },
    notes: [
      'The signature’s header is a list; while a key is being changed it contains two signatures, and either may match.',
    ],
    sign: (draft) => {
      const [message, stamp] = [messageId(draft), seconds(draft.nowMs)];
      const signed = Buffer.concat([Buffer.from(`${message}.${stamp}.`), draft.body]);
      const value = sign(null, signed, privateKey(draft.signingKey)).toString('base64');
      return { headers: { [id]: message, [time]: stamp, [signature]: `v1a,${value}` } };
    },
    secretForm: forms.whpk,
    paired: true,
    makeSecret: () => {
      const pair = ed25519Pair();
      return {
        secret: `whpk_${rawPublic(pair.publicKey).toString('base64')}`,
        signingKey: privateText(pair.privateKey),
      };
    },
    ...rest,
  });
}

const whsec = (where: string) => ({ what: 'the signing secret, `whsec_` and base64', where });
const invoice = ({ id, nowMs }: { id: string; nowMs: number }) => ({
  type: 'invoice.paid',
  timestamp: isoTime(nowMs),
  data: { id: uuid(id), amount: 1999, customer: 'Zoë' },
});

export const standardSenders: readonly Sender[] = [
  standard({
    id: 'standard_webhooks',
    name: 'Standard Webhooks (any sender that follows it)',
    secret: whsec('in the sender’s webhook settings'),
    steps: ['Add the URL of the table in the sender’s webhook settings and copy the signing secret.'],
    example: invoice,
  }),
  standardAsymmetric({
    id: 'standard_webhooks_ed25519',
    name: 'Standard Webhooks with Ed25519 (v1a)',
    secret: { what: 'the public key, `whpk_` and base64', where: 'in the sender’s webhook settings' },
    steps: ['Add the URL of the table in the sender’s webhook settings and copy the public key.'],
    example: invoice,
  }),
  standard({
    id: 'svix',
    name: 'Svix (any sender that uses it)',
    prefix: 'svix',
    secret: whsec('on the endpoint’s page'),
    steps: [
      'Add the URL of the table as an endpoint in the sender’s Svix portal and copy the signing secret.',
    ],
    notes: [
      ...standardNotes,
      'For a sender that uses the headers `webhook-…` instead: `USING standard_webhooks`.',
    ],
    example: invoice,
  }),
  standardAsymmetric({
    id: 'svix_ed25519',
    name: 'Svix with Ed25519 (v1a)',
    prefix: 'svix',
    secret: { what: 'the public key, `whpk_` and base64', where: 'on the endpoint’s page' },
    steps: ['Add the URL of the table as an endpoint in the sender’s Svix portal and copy the public key.'],
    example: invoice,
  }),
  standard({
    id: 'openai',
    name: 'OpenAI',
    secret: whsec('shown when the endpoint is created'),
    steps: [
      'Open the project’s settings → Webhooks → Create, with the URL of the table, and copy the signing secret.',
    ],
    example: ({ id, nowMs }) => ({
      id: `evt_${id}`,
      object: 'event',
      created_at: Math.floor(nowMs / 1000),
      type: 'response.completed',
      data: { id: `resp_${id}` },
    }),
  }),
  standard({
    id: 'clerk',
    name: 'Clerk',
    prefix: 'svix',
    secret: whsec('on the endpoint’s page'),
    steps: [
      'Open Configure → Webhooks → Add Endpoint with the URL of the table, choose events, copy the signing secret.',
    ],
    example: ({ id, nowMs }) => ({
      type: 'user.created',
      object: 'event',
      timestamp: nowMs,
      data: { id: `user_${id.slice(0, 27)}`, first_name: 'Zoë', email_addresses: [] },
    }),
  }),
  standard({
    id: 'resend',
    name: 'Resend',
    prefix: 'svix',
    secret: whsec('on the webhook’s page'),
    steps: ['Open Webhooks → Add Webhook with the URL of the table, choose events, copy the signing secret.'],
    example: ({ id, nowMs }) => ({
      type: 'email.delivered',
      created_at: isoTime(nowMs),
      data: { email_id: uuid(id), to: ['zoe@example.com'], subject: 'Bonjour ☕' },
    }),
  }),
  standard({
    id: 'supabase_auth',
    secretForm: forms.hookSecret,
    name: 'Supabase auth hooks',
    keyPrefixes: ['v1,', 'whsec_'],
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
  standard({
    id: 'gitlab_signed',
    name: 'GitLab (signing token)',
    secret: { what: 'the signing token, `whsec_` and base64', where: 'in the webhook’s settings' },
    steps: [
      'Open the project’s Settings → Webhooks → Add new webhook with the URL of the table.',
      'Use a signing token if your GitLab offers one; otherwise `USING gitlab`.',
    ],
    makeSecret: (random) => same(`whsec_${random(32).toString('base64')}`),
    eventHeaders: () => ({ 'X-Gitlab-Event': 'Push Hook' }),
    example: ({ id }) => ({
      object_kind: 'push',
      after: id,
      project: { id: numeric(id), path_with_namespace: 'acme/shop' },
    }),
  }),
];
