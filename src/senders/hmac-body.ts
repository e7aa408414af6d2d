/** Senders that sign the bytes of the body, and nothing else, with an HMAC in one header: code hosting and tools. */
import { header, hmac } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, sender } from './sender.ts';
import { isoTime, mac, numeric, uuid } from './signing.ts';

interface HmacSpec extends SenderSpec {
  readonly prefix?: string;
  readonly algorithm?: 'md5' | 'sha1' | 'sha256' | 'sha512';
  readonly encoding?: 'hex' | 'base64';
  /** The key's encoding, if the secret is written in hexadecimal or base64. */
  readonly key?: 'hex' | 'base64';
}

/** The first header contains the signature. */
export function hmacBody(spec: HmacSpec): Sender {
  const { prefix = '', algorithm = 'sha256', encoding = 'hex', key, ...rest } = spec;
  const name = spec.headers[0] ?? '';
  const before = prefix === '' ? '' : `'${prefix}' || `;
  return sender('A signature of the body', {
    secretForm: key === undefined ? null : forms[key],
    expression: (s) => {
      const bytes = key === undefined ? s : `decode(${s}, '${key}')`;
      return `secure_compare(${header(name)}, ${before}${hmac(bytes, 'payload', algorithm, encoding)})`;
    },
    sign: ({ body, signingKey }) => {
      const bytes = key === undefined ? signingKey : Buffer.from(signingKey, key);
      return { headers: { [name]: prefix + mac(algorithm, bytes, encoding, body) } };
    },
    ...rest,
  });
}

const repository = { id: 5167, name: 'shop', full_name: 'acme/shop' };

export const hmacBodySenders: readonly Sender[] = [
  hmacBody({
    id: 'github',
    name: 'GitHub',
    prefix: 'sha256=',
    headers: ['X-Hub-Signature-256'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'X-GitHub-Delivery' },
    steps: [
      'Open the repository or organisation, Settings → Webhooks → Add webhook.',
      'Payload URL: the URL of the table. Content type: `application/json`.',
      'Secret: the text of the secret. Choose the events and save.',
    ],
    notes: [
      'GitHub sends a `ping` event first; it is stored like any other and needs no answer.',
      "With the content type `application/x-www-form-urlencoded` the JSON is in the field `payload` of a form: the table then needs `format = 'form'`.",
    ],
    eventHeaders: ({ id }) => ({
      'X-GitHub-Event': 'issues',
      'X-GitHub-Delivery': uuid(id),
      'User-Agent': 'GitHub-Hookshot/044aadd',
    }),
    example: ({ id }) => ({
      action: 'opened',
      issue: { id: numeric(id), number: 42, title: 'The café page is slow ☕', state: 'open' },
      repository,
      sender: { login: 'octocat', id: 583231 },
    }),
  }),
  hmacBody({
    id: 'github_sha1',
    name: 'GitHub (SHA-1, older GitHub Enterprise)',
    prefix: 'sha1=',
    algorithm: 'sha1',
    headers: ['X-Hub-Signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'X-GitHub-Delivery' },
    steps: ['As for GitHub. Prefer `github`: every current GitHub sends both signatures.'],
    eventHeaders: ({ id }) => ({ 'X-GitHub-Event': 'push', 'X-GitHub-Delivery': uuid(id) }),
    example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
  }),
  hmacBody({
    id: 'bitbucket',
    name: 'Bitbucket Cloud and Data Center',
    prefix: 'sha256=',
    headers: ['X-Hub-Signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'X-Request-UUID', or: 'X-Request-Id (Data Center)' },
    steps: [
      'Open Repository settings → Webhooks → Add webhook.',
      'URL: the URL of the table. Secret: the text of the secret. Choose the triggers and save.',
    ],
    notes: [
      'Data Center has a “Test connection” that sends `diagnostics:ping`; it may arrive without a signature.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Event-Key': 'repo:push', 'X-Request-UUID': uuid(id) }),
    example: ({ id }) => ({
      push: { changes: [{ new: { type: 'branch', name: 'main', target: { hash: id } } }] },
      repository: { type: 'repository', full_name: 'acme/shop' },
      actor: { display_name: 'Zoë' },
    }),
  }),
  hmacBody({
    id: 'gitea',
    name: 'Gitea',
    headers: ['X-Gitea-Signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'X-Gitea-Delivery' },
    steps: [
      'Open the repository, Settings → Webhooks → Add Webhook → Gitea.',
      'Target URL: the URL of the table, method POST, content type `application/json`. Secret: the text of the secret.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Gitea-Event': 'push', 'X-Gitea-Delivery': uuid(id) }),
    example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
  }),
  hmacBody({
    id: 'forgejo',
    name: 'Forgejo',
    headers: ['X-Forgejo-Signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'X-Forgejo-Delivery' },
    steps: [
      'Open the repository, Settings → Webhooks → Add webhook → Forgejo.',
      'Target URL: the URL of the table, method POST, content type `application/json`. Secret: the text of the secret.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Forgejo-Event': 'push', 'X-Forgejo-Delivery': uuid(id) }),
    example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
  }),
  hmacBody({
    id: 'gogs',
    name: 'Gogs',
    headers: ['X-Gogs-Signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'X-Gogs-Delivery' },
    steps: [
      'Open the repository, Settings → Webhooks → Add a new webhook → Gogs.',
      'Payload URL: the URL of the table, content type `application/json`. Secret: the text of the secret.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Gogs-Event': 'create', 'X-Gogs-Delivery': uuid(id) }),
    example: ({ id }) => ({ ref: `v1.${numeric(id)}`, ref_type: 'tag', repository }),
  }),
  hmacBody({
    id: 'jira',
    name: 'Jira Cloud (admin webhooks)',
    prefix: 'sha256=',
    headers: ['X-Hub-Signature'],
    secret: { what: 'the text you type or have it generate', where: 'in the webhook’s form' },
    deliveryId: { header: 'X-Atlassian-Webhook-Identifier' },
    steps: [
      'Open the administration’s System settings → WebHooks → Create a WebHook.',
      'URL: the URL of the table. Secret: the text of the secret. Choose the events and save.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Atlassian-Webhook-Identifier': uuid(id) }),
    example: ({ id, nowMs }) => ({
      timestamp: nowMs,
      webhookEvent: 'jira:issue_updated',
      issue: { id: String(numeric(id)), key: 'SHOP-42', fields: { summary: 'The café page is slow' } },
    }),
  }),
  hmacBody({
    id: 'vercel',
    name: 'Vercel',
    algorithm: 'sha1',
    headers: ['x-vercel-signature'],
    secret: { what: 'a text', where: 'shown once when the webhook is created' },
    deliveryId: { fields: [['id']] },
    steps: [
      'Open the team’s Settings → Webhooks.',
      'Choose events and projects, enter the URL of the table and create the webhook.',
      'Copy the secret that is shown.',
    ],
    example: ({ id, nowMs }) => ({
      id: `evt_${id.slice(0, 24)}`,
      type: 'deployment.succeeded',
      createdAt: nowMs,
      payload: { deployment: { id: 'dpl_7Hqm', name: 'shop', url: 'shop-acme.vercel.app' } },
    }),
  }),
  hmacBody({
    id: 'sentry',
    name: 'Sentry (integration platform)',
    headers: ['Sentry-Hook-Signature'],
    secret: { what: 'the client secret', where: 'in the internal integration’s Credentials' },
    deliveryId: { header: 'Request-ID' },
    steps: [
      'Open Settings → Developer Settings → Create New Integration → Internal Integration.',
      'Webhook URL: the URL of the table. Choose the resources and save.',
      'Copy the Client Secret.',
    ],
    notes: ['`Sentry-Hook-Timestamp` is not signed, so it is not checked.'],
    eventHeaders: ({ id, nowMs }) => ({
      'Sentry-Hook-Resource': 'issue',
      'Sentry-Hook-Timestamp': String(Math.floor(nowMs / 1000)),
      'Request-ID': id,
    }),
    example: ({ id }) => ({
      action: 'created',
      data: { issue: { id: String(numeric(id)), title: 'TypeError: café is undefined', level: 'error' } },
      installation: { uuid: uuid(id) },
    }),
  }),
  hmacBody({
    id: 'notion',
    name: 'Notion',
    prefix: 'sha256=',
    headers: ['X-Notion-Signature'],
    secret: { what: 'the verification token (`secret_…`)', where: 'it arrives in the first request' },
    deliveryId: { fields: [['id']] },
    steps: [
      'Open the integration’s settings → Webhooks → Create a subscription.',
      'Create the secret and the table of this page first, and within ten minutes enter the URL of the table as Webhook URL. Choose the events.',
      'Notion sends its token, which becomes the secret: `SHOW SECRETS` shows where it came from. Print it, once, with `headgate secrets reveal notion_secret`, and paste it into Notion → Verify.',
      "If Notion was late, or `SHOW SECRETS` says that the secret is contested: `ALTER SECRET notion_secret WITH (learn = '10 minutes')`, and have Notion send the token again.",
    ],
    makeSecret: (random) => {
      const secret = `secret_${random(24).toString('hex')}`;
      return { secret, signingKey: secret };
    },
    example: ({ id, nowMs }) => ({
      id: uuid(id),
      timestamp: isoTime(nowMs),
      type: 'page.content_updated',
      entity: { id: uuid(id), type: 'page' },
    }),
  }),
  hmacBody({
    id: 'asana',
    name: 'Asana',
    headers: ['X-Hook-Signature'],
    secret: { what: 'the secret of the handshake', where: 'the header X-Hook-Secret of the first request' },
    steps: [
      'Create the secret and the table of this page first, and within ten minutes the webhook, through the API: `POST /webhooks` with `resource` and `target`, the URL of the table.',
      'Asana sends the secret during that call: `SHOW SECRETS` shows where it came from. Each webhook has its own secret, so it needs its own table.',
      "If the call was late, or `SHOW SECRETS` says that the secret is contested: `ALTER SECRET asana_secret WITH (learn = '10 minutes')`, and create the webhook again.",
    ],
    example: ({ id, nowMs }) => ({
      events: [
        {
          action: 'changed',
          resource: { gid: String(numeric(id)), resource_type: 'task' },
          created_at: isoTime(nowMs),
        },
      ],
    }),
  }),
  hmacBody({
    id: 'airtable',
    name: 'Airtable',
    prefix: 'hmac-sha256=',
    key: 'base64',
    headers: ['X-Airtable-Content-MAC'],
    secret: {
      what: '`macSecretBase64`, base64 as it is',
      where: 'in the answer of the call that creates the webhook',
    },
    steps: [
      'Create a webhook for the base through the API, with `notificationUrl`, the URL of the table.',
      'Keep `macSecretBase64` from the answer.',
    ],
    notes: ['A notification says only that something changed; fetch the changes through the API.'],
    makeSecret: (random) => {
      const secret = random(32).toString('base64');
      return { secret, signingKey: secret };
    },
    example: ({ id, nowMs }) => ({
      base: { id: 'app00000000000000' },
      webhook: { id: `ach${id.slice(0, 14)}` },
      timestamp: isoTime(nowMs),
    }),
  }),
];
