/** The packages of senders that were added in 2026, and of some that had none: as in `fetched-packages.ts`, which reads them. */
import { createSecretKey } from 'node:crypto';
import { type Judge, lower, unlessThrown } from './judge.ts';

export const moreJudges: readonly Judge[] = [
  {
    package: '@zoom/rivet',
    senders: ['zoom'],
    judge: async (load, { body, headers, secret }) => {
      const { AwsLambdaReceiver } = await load('meetings');
      const receiver = new AwsLambdaReceiver({ webhooksSecretToken: secret });
      receiver.init({ eventEmitter: { emit: async () => {} } });
      const answer = await receiver.start()({ body, headers: lower(headers), isBase64Encoded: false }, {});
      return answer.statusCode === 200;
    },
  },
  {
    package: 'resend',
    senders: ['resend'],
    judge: async (load, { body, headers, secret }) => {
      const { Resend } = await load();
      const at = lower(headers);
      const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map((it) => at[`svix-${it}`]);
      const asked = { payload: body, headers: { id, timestamp, signature }, webhookSecret: secret };
      return unlessThrown(() => new Resend('re_key').webhooks.verify(asked));
    },
  },
  {
    package: '@anthropic-ai/sdk',
    senders: ['anthropic'],
    judge: async (load, { body, headers, secret }) => {
      const { Anthropic } = await load();
      const client = new Anthropic({ apiKey: 'key' });
      return unlessThrown(() => client.beta.webhooks.unwrap(body, { headers: lower(headers), key: secret }));
    },
  },
  {
    package: 'acuityscheduling',
    senders: ['acuity'],
    judge: async (load, { body, headers, secret }) => {
      const { bodyParserVerify } = await load();
      return unlessThrown(() =>
        bodyParserVerify(secret)({ headers: lower(headers) }, null, Buffer.from(body)),
      );
    },
  },
  {
    package: 'cashfree-pg',
    senders: ['cashfree'],
    judge: async (load, { body, headers, secret }) => {
      const { Cashfree, CFEnvironment } = await load();
      const at = lower(headers);
      const client = new Cashfree(CFEnvironment.SANDBOX, 'id', secret);
      return unlessThrown(() =>
        client.PGVerifyWebhookSignature(at['x-webhook-signature'], body, at['x-webhook-timestamp']),
      );
    },
  },
  {
    package: 'crisp-api',
    senders: ['crisp'],
    judge: async (load, { body, headers, secret }) => {
      const { Crisp } = await load();
      const client = new Crisp();
      client.setRtmMode(Crisp.RTM_MODES.WebHooks);
      await client.on('message:send', () => {});
      const at = lower(headers);
      const time = at['x-crisp-request-timestamp'];
      return client.verifyHook(secret, JSON.parse(body), time, at['x-crisp-signature']) as boolean;
    },
  },
  {
    package: '@dropbox/sign',
    senders: ['dropbox_sign'],
    judge: async (load, { body, secret }) => {
      const { EventCallbackHelper, EventCallbackRequest } = await load();
      const event = JSON.parse(new URLSearchParams(body).get('json') ?? '') as object;
      return EventCallbackHelper.isValid(secret, EventCallbackRequest.init(event)) as boolean;
    },
    whole: false,
  },
  {
    package: '@easypost/api',
    senders: ['easypost'],
    judge: async (load, { body, headers, secret }) => {
      const EasyPost = await load();
      const client = new EasyPost('key');
      return unlessThrown(() => client.Utils.validateWebhook(Buffer.from(body), lower(headers), secret));
    },
  },
  {
    package: 'stream-chat',
    senders: ['getstream'],
    judge: async (load, { body, headers, secret }) => {
      const { StreamChat } = await load();
      return new StreamChat('key', secret).verifyWebhook(body, lower(headers)['x-signature']) as boolean;
    },
  },
  {
    package: '@kontent-ai/webhook-helper',
    senders: ['kontent_ai'],
    judge: async (load, { body, headers, secret }) => {
      const { signatureHelper } = await load();
      const signature = lower(headers)['x-kontent-ai-signature'];
      return signatureHelper.isValidSignatureFromString(body, secret, signature) as boolean;
    },
  },
  {
    package: 'mercadopago',
    senders: ['mercado_pago'],
    judge: async (load, { url, headers, secret }) => {
      const { WebhookSignatureValidator } = await load();
      const at = lower(headers);
      const dataId = new URL(url).searchParams.get('data.id');
      const [xSignature, xRequestId] = [at['x-signature'], at['x-request-id']];
      return unlessThrown(() =>
        WebhookSignatureValidator.validate({ xSignature, xRequestId, dataId, secret }),
      );
    },
    whole: false,
  },
  {
    package: 'messagebird',
    senders: ['messagebird'],
    judge: async (load, { body, url, headers, secret }) => {
      const { verify } = await load('lib/webhook-signature-jwt');
      const token = lower(headers)['messagebird-signature-jwt'];
      return unlessThrown(() => verify(url, Buffer.from(body), token, createSecretKey(Buffer.from(secret))));
    },
  },
  {
    package: '@metronome/sdk',
    senders: ['metronome'],
    judge: async (load, { body, headers, secret }) => {
      const { Metronome } = await load();
      const client = new Metronome({ bearerToken: 'token', webhookSecret: secret });
      return unlessThrown(() => client.webhooks.verifySignature(body, headers, secret));
    },
  },
  {
    package: 'modern-treasury',
    senders: ['modern_treasury'],
    judge: async (load, { body, headers, secret }) => {
      const { ModernTreasury } = await load();
      const client = new ModernTreasury({ organizationID: 'id', apiKey: 'key' });
      return client.webhooks.validateSignature(body, headers, { key: secret }) as boolean;
    },
  },
  {
    package: '@onfido/api',
    senders: ['onfido'],
    judge: async (load, { body, headers, secret }) => {
      const { WebhookEventVerifier } = await load();
      const signature = lower(headers)['x-sha2-signature'];
      return unlessThrown(() => new WebhookEventVerifier(secret).readPayload(body, signature));
    },
  },
  {
    package: '@team-plain/typescript-sdk',
    senders: ['plain'],
    judge: async (load, { body, headers, secret }) => {
      const { verifyPlainWebhook } = await load();
      const { error } = verifyPlainWebhook(body, lower(headers)['plain-request-signature'], secret);
      // What follows the check of the signature is its own opinion of the event.
      return error?.constructor.name !== 'PlainWebhookSignatureVerificationError';
    },
  },
  {
    package: '@sinch/sdk-client',
    senders: ['sinch'],
    judge: async (load, { body, headers, secret }) => {
      const { validateWebhookSignature } = await load('./dist/utils/authorization.helper.js');
      return validateWebhookSignature(secret, headers, body) as boolean;
    },
  },
  {
    package: '@vonage/jwt',
    senders: ['vonage'],
    judge: async (load, { headers, secret }) => {
      const { verifySignature } = await load();
      return verifySignature((lower(headers)['authorization'] ?? '').slice(7), secret) as boolean;
    },
    whole: false,
  },
  {
    package: '@wix/sdk',
    senders: ['wix'],
    judge: async (load, { body, secret }) => {
      const { AppStrategy } = await load('auth/wix-app-oauth');
      const { valid } = await AppStrategy({ appId: 'app', publicKey: secret }).decodeJWT(body);
      return valid as boolean;
    },
  },
  {
    package: 'viber-bot',
    senders: ['viber'],
    judge: async (load, { body, headers, secret }) => {
      const Validator = await load('lib/message/message-validator');
      const validator = new Validator({ debug: () => {} }, secret);
      return validator.validateMessage(lower(headers)['x-viber-content-signature'], body) as boolean;
    },
  },
  {
    package: 'atlassian-jwt',
    senders: ['atlassian_connect'],
    judge: async (load, { url, headers, secret }) => {
      const jwt = await load();
      const token = (lower(headers)['authorization'] ?? '').slice('JWT '.length);
      const { qsh } = jwt.decodeSymmetric(token, secret, 'HS256');
      return qsh === jwt.createQueryStringHash(jwt.fromMethodAndUrl('POST', url), false, new URL(url).origin);
    },
    whole: false,
  },
];
