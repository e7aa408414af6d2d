/**
 * The vendors' packages for Node that are no development dependencies, each as a judge of a request. They are loaded from a folder into
 * which `npm run test:verifiers` has put them.
 */
import { createHmac } from 'node:crypto';
import type { PackageName } from '../../src/senders/packages.ts';
import { type Judge, type Judged, type Loaded, lower, unlessThrown } from './judge.ts';
import { moreJudges } from './more-judges.ts';

/** Who reads what `@trigger.dev/core` says of a sender: its name there, by ours. */
const described = {
  attio: 'attio',
  cal_com: 'cal-com',
  calendly: 'calendly',
  docusign: 'docusign',
  firecrawl: 'firecrawl',
  hookdeck: 'hookdeck',
  infisical: 'infisical',
  intercom: 'intercom',
  jira: 'jira',
  langfuse: 'langfuse',
  metronome: 'metronome',
  pagerduty: 'pagerduty',
  plain: 'plain',
  planetscale: 'planetscale',
  sentry: 'sentry',
  tailscale: 'tailscale',
  typeform: 'typeform',
  vapi: 'vapi',
  vercel: 'vercel',
  workos: 'workos',
  zendesk: 'zendesk',
  zoom: 'zoom',
} as const;

/** Checks a request by a description: where signature and time are, and which bytes are signed. */
function judgedBy(config: Loaded, { body, headers, secret }: Judged): boolean {
  const at = lower(headers);
  const fields = new Map<string, string>();
  const parsed = config.signature;
  const all = (at[config.signatureHeader] ?? '').split(parsed.itemSeparator ?? '\n').map((it) => it.trim());
  for (const item of all) {
    const place = item.indexOf(parsed.fieldSeparator ?? '=');
    if (place > 0) fields.set(item.slice(0, place), item.slice(place + 1));
  }
  const { source } = config.timestamp ?? {};
  const time =
    source?.from === 'header'
      ? at[source.name]
      : source?.from === 'signatureField'
        ? fields.get(source.field)
        : '';
  const text =
    config.signingString === 'raw'
      ? body
      : String(config.signingString.template)
          .replace('{timestamp}', time ?? '')
          .replace('{date}', at['x-metronome-date'] ?? '')
          .replace('{body}', () => body);
  const made = createHmac(config.algorithm, secret).update(text).digest(config.encoding);
  return parsed.field === undefined ? all.includes(made) : fields.get(parsed.field) === made;
}

export const judges: readonly Judge[] = [
  ...moreJudges,
  ...Object.entries(described).map(([sender, name]): Judge => ({
    package: '@trigger.dev/core',
    senders: [sender],
    judge: async (load, request) => {
      const { webhookProviderConfigs } = await load('webhooks');
      return judgedBy(webhookProviderConfigs[name].config(), request);
    },
  })),
  {
    package: '@contentful/node-apps-toolkit',
    senders: ['contentful'],
    judge: async (load, { body, url, headers, secret }) => {
      const { verifyRequest } = await load();
      const path = new URL(url).pathname;
      return verifyRequest(secret, { method: 'POST', path, headers, body }) as boolean;
    },
  },
  {
    package: '@hubspot/api-client',
    senders: ['hubspot', 'hubspot_v1', 'hubspot_v2'],
    judge: async (load, { body, url, headers, secret }) => {
      const { Signature } = await load();
      const at = lower(headers);
      const v3 = at['x-hubspot-signature-v3'];
      return Signature.isValid({
        signatureVersion: v3 === undefined ? at['x-hubspot-signature-version'] : 'v3',
        signature: v3 ?? at['x-hubspot-signature'],
        method: 'POST',
        clientSecret: secret,
        requestBody: body,
        url,
        timestamp: Number(at['x-hubspot-request-timestamp']),
      }) as boolean;
    },
  },
  {
    package: 'box-node-sdk',
    senders: ['box'],
    judge: async (load, { body, headers, secret }) =>
      (await load()).validateWebhookMessage(body, lower(headers), secret, 'another') as boolean,
  },
  {
    package: 'webflow-api',
    senders: ['webflow'],
    judge: async (load, { body, headers, secret }) => {
      const { WebflowClient } = await load();
      const webhooks = new WebflowClient({ accessToken: 'token' }).webhooks;
      return webhooks.verifySignature({ headers: lower(headers), body, secret }) as Promise<boolean>;
    },
  },
  {
    package: 'coinbase-commerce-node',
    senders: ['coinbase_commerce'],
    judge: async (load, { body, headers, secret }) =>
      unlessThrown(async () =>
        (await load()).Webhook.verifySigHeader(body, lower(headers)['x-cc-webhook-signature'], secret),
      ),
  },
  {
    package: 'square',
    senders: ['square'],
    judge: async (load, { body, url, headers, secret }) =>
      (await load()).WebhooksHelper.verifySignature({
        requestBody: body,
        signatureHeader: lower(headers)['x-square-hmacsha256-signature'],
        signatureKey: secret,
        notificationUrl: url,
      }) as Promise<boolean>,
  },
  {
    package: 'pusher',
    senders: ['pusher'],
    judge: async (load, { body, headers, secret }) => {
      const Pusher = await load();
      const pusher = new Pusher({ appId: '1', cluster: 'eu', ...(JSON.parse(secret) as object) });
      return pusher.webhook({ headers: lower(headers), rawBody: body }).isValid() as boolean;
    },
  },
  {
    package: 'openai',
    senders: ['openai'],
    judge: async (load, { body, headers, secret }) => {
      const OpenAI = await load();
      const client = new (OpenAI.OpenAI ?? OpenAI)({ apiKey: 'key' });
      return unlessThrown(() => client.webhooks.unwrap(body, lower(headers), secret));
    },
  },
  {
    package: '@clerk/backend',
    senders: ['clerk'],
    judge: async (load, { body, url, headers, secret }) => {
      const { verifyWebhook } = await load('webhooks');
      const request = new Request(url, { method: 'POST', headers, body });
      return unlessThrown(() => verifyWebhook(request, { signingSecret: secret }));
    },
  },
  {
    package: '@line/bot-sdk',
    senders: ['line'],
    judge: async (load, { body, headers, secret }) =>
      (await load()).validateSignature(body, secret, lower(headers)['x-line-signature']) as boolean,
  },
  {
    package: 'telnyx',
    senders: ['telnyx'],
    judge: async (load, { body, headers, secret }) => {
      const Telnyx = await load();
      const client = new (Telnyx.Telnyx ?? Telnyx)({ apiKey: 'key', publicKey: secret });
      return unlessThrown(() => client.webhooks.unwrap(body, { headers: lower(headers), key: secret }));
    },
  },
  {
    package: '@mux/mux-node',
    senders: ['mux'],
    judge: async (load, { body, headers, secret }) => {
      const Mux = await load();
      const mux = new (Mux.Mux ?? Mux)({ tokenId: 'id', tokenSecret: 'secret', webhookSecret: secret });
      return unlessThrown(() => mux.webhooks.verifySignature(body, lower(headers), secret));
    },
  },
  {
    package: '@workos-inc/node',
    senders: ['workos'],
    judge: async (load, { body, headers, secret }) => {
      const { WorkOS } = await load();
      const payload = JSON.parse(body) as object;
      const sigHeader = lower(headers)['workos-signature'];
      return unlessThrown(() => new WorkOS('key').webhooks.constructEvent({ payload, sigHeader, secret }));
    },
  },
  {
    package: '@elevenlabs/elevenlabs-js',
    senders: ['elevenlabs'],
    judge: async (load, { body, headers, secret }) => {
      const { ElevenLabsClient } = await load();
      const client = new ElevenLabsClient({ apiKey: 'key' });
      return unlessThrown(() =>
        client.webhooks.constructEvent(body, lower(headers)['elevenlabs-signature'], secret),
      );
    },
  },
  {
    package: 'gocardless-nodejs',
    senders: ['gocardless'],
    judge: async (load, { body, headers, secret }) =>
      unlessThrown(async () =>
        (await load('webhooks')).parse(body, secret, lower(headers)['webhook-signature']),
      ),
  },
  {
    package: 'replicate',
    senders: ['standard_webhooks'],
    judge: async (load, { body, headers, secret }) => {
      const { validateWebhook } = await load();
      const at = lower(headers);
      return validateWebhook({
        id: at['webhook-id'],
        timestamp: at['webhook-timestamp'],
        signature: at['webhook-signature'],
        body,
        secret,
      }) as Promise<boolean>;
    },
  },
  {
    package: '@polar-sh/sdk',
    senders: ['polar'],
    judge: async (load, { body, headers, secret }) => {
      const { validateEvent } = await load('webhooks');
      try {
        validateEvent(body, lower(headers), secret);
      } catch (error) {
        // What follows the check of the signature is its own opinion of the event.
        if ((error as Error).constructor.name === 'WebhookVerificationError') return false;
      }
      return true;
    },
  },
  {
    package: 'retell-sdk',
    senders: ['retell'],
    judge: async (load, { body, headers, secret }) => {
      const Retell = await load();
      return (Retell.Retell ?? Retell).verify(
        body,
        secret,
        lower(headers)['x-retell-signature'],
      ) as Promise<boolean>;
    },
  },
  {
    package: 'livekit-server-sdk',
    senders: ['livekit'],
    judge: async (load, { body, headers, secret }) => {
      const { WebhookReceiver } = await load();
      const receiver = new WebhookReceiver('APIaBcDeFgHiJk', secret);
      return unlessThrown(() => receiver.receive(body, lower(headers)['authorization']));
    },
  },
  {
    package: 'cloudinary',
    senders: ['cloudinary'],
    judge: async (load, { body, headers, secret }) => {
      const { v2 } = await load();
      v2.config({ cloud_name: 'c', api_key: 'key', api_secret: secret });
      const at = lower(headers);
      const time = Number(at['x-cld-timestamp']);
      return v2.utils.verifyNotificationSignature(body, time, at['x-cld-signature']) as boolean;
    },
  },
  {
    package: '@shopify/shopify-api',
    senders: ['shopify'],
    judge: async (load, { body, headers, secret }) => {
      await load('adapters/node');
      const { shopifyApi, ApiVersion } = await load();
      const shopify = shopifyApi({
        apiKey: 'key',
        apiSecretKey: secret,
        hostName: 'hooks.example.com',
        apiVersion: Object.values(ApiVersion as Record<string, string>).at(-1),
        isEmbeddedApp: false,
        logger: { log: () => {} },
      });
      const rawRequest = {
        method: 'POST',
        url: '/',
        headers: { ...lower(headers), 'x-shopify-api-version': '2026-01' },
      };
      const found = await shopify.webhooks.validate({ rawBody: body, rawRequest, rawResponse: {} });
      return (found as { readonly valid: boolean }).valid;
    },
  },
];

/** The senders for which a package for Python signs or judges, in `test/verifiers/senders.py`. */
export const pythonPackages = {
  svix: 'svix (Python)',
  standard_webhooks: 'standardwebhooks (Python)',
  slack: 'slack_sdk',
  stripe: 'stripe (Python)',
  twilio_form: 'twilio (Python)',
  wechat: 'wechatpy',
  line: 'line-bot-sdk',
  paypal: 'paypalrestsdk',
} as const satisfies Readonly<Record<string, PackageName>>;

/** A package that computes the answer to a sender's challenge. */
export const challengePackages = { ebay: 'event-notification-nodejs-sdk' } as const satisfies Readonly<
  Record<string, PackageName>
>;
