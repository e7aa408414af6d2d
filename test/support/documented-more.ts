/**
 * More of `documented-signers.ts`: public keys, JSON Web Tokens, signatures of URLs and fields, and tokens, made with node:crypto alone by what
 * the senders document. Pure, but for the keys.
 */
import { createHash, createHmac, generateKeyPairSync, sign } from 'node:crypto';
import type { Documented, DocumentedSender } from './documented-signers.ts';

const sha = (text: string, as: 'hex' | 'base64') => createHash('sha256').update(text).digest(as);
const seconds = (ms: number) => `${Math.floor(ms / 1000)}`;

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ed25519 = generateKeyPairSync('ed25519');
const pem = rsa.publicKey.export({ format: 'pem', type: 'spki' }).toString();
const p256Base64 = p256.publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
const ed25519Raw = ed25519.publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);

const rsaOf = (hash: string, text: string) =>
  sign(hash, Buffer.from(text), rsa.privateKey).toString('base64');

/** RS256. */
function token(claims: object): string {
  const part = (it: object) => Buffer.from(JSON.stringify(it)).toString('base64url');
  const signed = `${part({ alg: 'RS256', typ: 'JWT', kid: 'k1' })}.${part(claims)}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), rsa.privateKey).toString('base64url')}`;
}

function hmacToken(claims: object, key: string): string {
  const part = (it: object) => Buffer.from(JSON.stringify(it)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}

/** Standard Webhooks, version 1a. */
const asymmetric = (prefix: string): DocumentedSender => ({
  secret: `whpk_${ed25519Raw.toString('base64')}`,
  staleAfterS: 300,
  make: ({ ms, body }) => {
    const signature = sign(null, Buffer.from(`msg_1.${seconds(ms)}.${body}`), ed25519.privateKey);
    return {
      headers: {
        [`${prefix}-id`]: 'msg_1',
        [`${prefix}-timestamp`]: seconds(ms),
        [`${prefix}-signature`]: `v1a,${signature.toString('base64')}`,
      },
      body,
    };
  },
});

/** A text in a header: nothing of the body is signed. */
const inHeader = (header: string, value: (secret: string) => string = (it) => it): DocumentedSender => ({
  secret: 'user:a-token-of-some-length',
  whole: false,
  make: ({ secret, body }) => ({ headers: { [header]: value(secret) }, body }),
});
const bearer = inHeader('Authorization', (it) => `Bearer ${it}`);
const basic = inHeader('Authorization', (it) => `Basic ${Buffer.from(it).toString('base64')}`);

const inQuery = (name: string): DocumentedSender => ({
  secret: 'a token, with & and ü',
  whole: false,
  make: ({ secret, body }) => ({ headers: {}, query: `?${name}=${encodeURIComponent(secret)}`, body }),
});

const inBody = (put: (secret: string) => unknown): DocumentedSender => ({
  secret: 'a token of the body',
  whole: false,
  make: ({ secret }) => ({ headers: {}, body: JSON.stringify(put(secret)) }),
});

/** The hub's secret, by WebSub 8: any of four digests. */
const hub = (algorithm: string, body?: string): DocumentedSender => ({
  secret: 'the secret of the subscription',
  ...(body === undefined ? {} : { body }),
  make: ({ secret, body: sent }) => ({
    headers: {
      'X-Hub-Signature': `${algorithm}=${createHmac(algorithm, secret).update(sent).digest('hex')}`,
    },
    body: sent,
  }),
});
const atom = '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>yt:video:1</id></entry></feed>';

const sorted = (body: string) =>
  [...new URLSearchParams(body)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map((pair) => pair.join(''))
    .join('');

function sns(version: '1' | '2', ms: number): Documented {
  const message: Record<string, string> = {
    Type: 'Notification',
    MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
    TopicArn: 'arn:aws:sns:eu-west-1:123456789012:orders',
    Subject: 'My First Message',
    Message: 'Zoë said hello',
    Timestamp: new Date(ms).toISOString(),
  };
  const text = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
    .map((name) => `${name}\n${message[name] ?? ''}\n`)
    .join('');
  const Signature = rsaOf(version === '2' ? 'sha256' : 'sha1', text);
  return {
    headers: { 'Content-Type': 'text/plain; charset=UTF-8', 'x-amz-sns-message-type': 'Notification' },
    body: JSON.stringify({ ...message, SignatureVersion: version, Signature }),
  };
}

export const documentedMore: Readonly<Record<string, DocumentedSender>> = {
  github_sha1: {
    secret: 'secret',
    make: ({ secret, body }) => ({
      headers: { 'X-Hub-Signature': `sha1=${createHmac('sha1', secret).update(body).digest('hex')}` },
      body,
    }),
  },
  fitbit: {
    secret: 'client secret',
    make: ({ secret, body }) => ({
      headers: {
        'X-Fitbit-Signature': createHmac('sha1', `${secret}&`).update(body).digest('base64'),
      },
      body,
    }),
  },
  websub: hub('sha1'),
  'websub sha256': hub('sha256'),
  'websub sha384': hub('sha384'),
  'websub sha512': hub('sha512'),
  youtube: hub('sha1', atom),
  twitch: {
    secret: 's3cre77890ab',
    staleAfterS: 600,
    make: ({ secret, ms, body }) => {
      const [id, time] = ['befa7b53-d79d-478f-86b9-120f112b044e', new Date(ms).toISOString()];
      const digest = createHmac('sha256', secret)
        .update(id + time + body)
        .digest('hex');
      return {
        headers: {
          'Twitch-Eventsub-Message-Id': id,
          'Twitch-Eventsub-Message-Timestamp': time,
          'Twitch-Eventsub-Message-Signature': `sha256=${digest}`,
        },
        body,
      };
    },
  },
  standard_webhooks_ed25519: asymmetric('webhook'),
  svix_ed25519: asymmetric('svix'),
  bigcommerce: {
    secret: 'client secret',
    staleAfterS: 300,
    make: ({ secret, ms, body }) => {
      // The secret of Standard Webhooks is the base64 of the client's.
      const text = `msg_1.${seconds(ms)}.${body}`;
      return {
        headers: {
          'webhook-id': 'msg_1',
          'webhook-timestamp': seconds(ms),
          'webhook-signature': `v1,${createHmac('sha256', secret).update(text).digest('base64')}`,
        },
        body,
      };
    },
  },
  aws_sns: { secret: pem, whole: false, make: ({ ms }) => sns('1', ms) },
  'aws_sns version-2': { secret: pem, whole: false, make: ({ ms }) => sns('2', ms) },
  fusionauth: {
    secret: 'an HMAC key of FusionAuth',
    make: ({ secret, body }) => ({
      headers: {
        'X-FusionAuth-Signature-JWT': hmacToken({ request_body_sha256: sha(body, 'base64') }, secret),
      },
      body,
    }),
  },
  ebay: {
    secret: p256Base64,
    make: ({ body }) => {
      const signature = sign('sha1', Buffer.from(body), p256.privateKey).toString('base64');
      const value = { alg: 'ecdsa', kid: '9936261a-7d7b-4621-a0f1-964d3c5e0b5e', signature, digest: 'SHA1' };
      return {
        headers: { 'X-EBAY-SIGNATURE': Buffer.from(JSON.stringify(value)).toString('base64') },
        body,
      };
    },
  },
  adobe_io: {
    secret: JSON.stringify({ client_id: 'client 1', key1: pem, key2: pem }),
    body: '{"recipient_client_id":"client 1","event_id":"e1"}',
    make: ({ body }) => ({
      headers: {
        'x-adobe-digital-signature-1': rsaOf('sha256', body),
        'x-adobe-digital-signature-2': 'AAAA',
      },
      body,
    }),
  },
  mandrill: {
    secret: 'webhook key',
    body: 'mandrill_events=%5B%7B%22event%22%3A%22open%22%7D%5D',
    make: ({ secret, body, url }) => ({
      headers: {
        'X-Mandrill-Signature': createHmac('sha1', secret)
          .update(url + sorted(body))
          .digest('base64'),
      },
      body,
    }),
  },
  mailchimp_signed: {
    secret: 'signing secret',
    staleAfterS: 300,
    make: ({ secret, ms, body }) => ({
      headers: {
        'X-Mailchimp-Signature': `t=${seconds(ms)},v1=${createHmac('sha256', secret)
          .update(`${seconds(ms)}.${body}`)
          .digest('hex')}`,
      },
      body,
    }),
  },
  smartthings: {
    secret: pem,
    make: ({ ms, body, url }) => {
      const date = new Date(ms).toUTCString();
      const digest = `SHA-256=${sha(body, 'base64')}`;
      const text = `(request-target): post ${new URL(url).pathname}\ndigest: ${digest}\ndate: ${date}`;
      const list = `headers="(request-target) digest date",algorithm="rsa-sha256"`;
      return {
        headers: {
          Digest: digest,
          Date: date,
          Authorization: `Signature keyId="/pl/useast1/ab-cd",signature="${rsaOf('sha256', text)}",${list}`,
        },
        body,
      };
    },
  },
  prelude: {
    secret: pem,
    make: ({ body }) => {
      const key = { key: rsa.privateKey, padding: 6, saltLength: 32 };
      const value = sign('sha256', Buffer.from(body), key).toString('base64url');
      return { headers: { 'X-Webhook-Signature': `rsassa-pss-sha256=${value}` }, body };
    },
  },
  circle: {
    secret: p256Base64,
    make: ({ body }) => ({
      headers: {
        'X-Circle-Key-Id': '879dc113-5ca4-4ff7-a6b7-54652083fcf8',
        'X-Circle-Signature': sign('sha256', Buffer.from(body), p256.privateKey).toString('base64'),
      },
      body,
    }),
  },
  kick: {
    secret: pem,
    make: ({ ms, body }) => {
      const [id, time] = ['01JKN7VAS4VG6Y2S0JZZ2ZV5EY', new Date(ms).toISOString()];
      return {
        headers: {
          'Kick-Event-Message-Id': id,
          'Kick-Event-Message-Timestamp': time,
          'Kick-Event-Signature': rsaOf('sha256', `${id}.${time}.${body}`),
        },
        body,
      };
    },
  },
  kinde: {
    secret: pem,
    make: ({ ms }) => ({
      headers: { 'Content-Type': 'application/jwt' },
      body: token({ type: 'user.created', event_id: 'event_1', timestamp: new Date(ms).toISOString() }),
    }),
  },
  gong: {
    secret: pem,
    make: ({ ms, body, url }) => ({
      headers: {
        Authorization: `Bearer ${token({ iss: 'gong', exp: Math.floor(ms / 1000) + 60, webhook_url: url, body_sha256: sha(body, 'hex') })}`,
      },
      body,
    }),
  },
  savvycal: {
    secret: 'secret',
    make: ({ secret, body }) => ({
      headers: {
        'x-savvycal-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      },
      body,
    }),
  },
  ...Object.fromEntries(
    (
      [
        ['chargify', 'X-Chargify-Webhook-Signature-Hmac-Sha-256'],
        ['bland', 'X-Webhook-Signature'],
        ['dub', 'Dub-Signature'],
      ] as const
    ).map(([id, header]): [string, DocumentedSender] => [
      id,
      {
        secret: 'secret',
        make: ({ secret, body }) => ({
          headers: { [header]: createHmac('sha256', secret).update(body).digest('hex') },
          body,
        }),
      },
    ]),
  ),
  supabase_database: inHeader('Authorization'),
  rudderstack: inHeader('Authorization'),
  revenuecat: inHeader('Authorization'),
  okta: inHeader('Authorization'),
  hubspot_api_key: inHeader('Authorization'),
  api_key: inHeader('X-API-Key'),
  acrobat_sign: inHeader('X-AdobeSign-ClientId'),
  google_channels: inHeader('X-Goog-Channel-Token'),
  auth0: bearer,
  aws_eventbridge: bearer,
  alertmanager: bearer,
  kubernetes_audit: bearer,
  cloudevents: bearer,
  basic_auth: basic,
  datadog: basic,
  chargebee: basic,
  postmark: basic,
  pipedrive: basic,
  azure_event_grid: inQuery('code'),
  google_pubsub: inQuery('token'),
  google_play: inQuery('token'),
  salesforce: inQuery('token'),
  mailchimp: inQuery('secret'),
  keap: inQuery('token'),
  apideck: inQuery('token'),
  dimo: inQuery('token'),
  gumroad: inQuery('token'),
  figma: inBody((passcode) => ({ event_type: 'PING', passcode, webhook_id: '22', retries: 0 })),
  microsoft_graph: inBody((clientState) => ({ value: [{ subscriptionId: 's', clientState }] })),
  sharepoint: inBody((clientState) => ({ value: [{ subscriptionId: 's', clientState }] })),
  strava: inBody((id) => ({ aspect_type: 'update', object_id: 1, subscription_id: id })),
  lark: inBody((held) => ({ schema: '2.0', header: { event_id: 'e', token: held }, event: {} })),
  'lark older': inBody((held) => ({ uuid: 'e', token: held, type: 'event_callback' })),
  vk: inBody((secret) => ({ type: 'message_new', group_id: 1, secret })),
  livechat: inBody((held) => ({ webhook_id: 'w', secret_key: held, action: 'incoming_chat' })),
  aircall: inBody((held) => ({ resource: 'number', event: 'number.created', token: held })),
  prismic: inBody((secret) => ({ type: 'api-update', secret, masterRef: 'r' })),
};
