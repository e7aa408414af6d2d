/** Discord. */
import { code, known, none, page, ran, silent } from '../evidence.ts';
import { sign } from 'node:crypto';
import { fresh, header, utf8 } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, type SenderSpec, sender } from '../sender.ts';
import { ed25519Pair, isoTime, numeric, privateKey, privateText, rawPublic, seconds } from '../signing.ts';

/** Discord's two protocols use one signature scheme. */
function protocol(spec: Omit<SenderSpec, 'headers' | 'secret'> & { readonly toleranceS: number }): Sender {
  const [signature, time] = ['X-Signature-Ed25519', 'X-Signature-Timestamp'];
  const { toleranceS } = spec;
  return sender('A public key', {
    secretForm: forms.ed25519,
    headers: [signature, time],
    secret: {
      what: 'the application’s public key, 64 hexadecimal digits',
      where: 'Developer Portal → the app → General Information',
    },
    expression: (s) =>
      `${fresh(header(time), toleranceS)}\n  AND ed25519_verify(decode(${s}, 'hex'), ` +
      `${utf8(header(time))} || payload,\n    decode(${header(signature)}, 'hex'))`,
    sign: ({ body, nowMs, signingKey }) => {
      const signed = Buffer.concat([Buffer.from(seconds(nowMs)), body]);
      return {
        headers: {
          [time]: seconds(nowMs),
          [signature]: sign(null, signed, privateKey(signingKey)).toString('hex'),
        },
      };
    },
    paired: true,
    makeSecret: () => {
      const pair = ed25519Pair();
      return { secret: rawPublic(pair.publicKey).toString('hex'), signingKey: privateText(pair.privateKey) };
    },
    ...spec,
  });
}

export const discord: readonly Sender[] = [
  protocol({
    id: 'discord',
    name: 'Discord (webhook events)',
    toleranceS: 900,
    delivery: none(
      'Discord’s webhook events have no id',
      page('discord/discord-api-docs, “Webhook Events”', 'August 2026'),
      '`SELECT DISTINCT data` reads equal ones once.',
    ),
    retries: {
      when: 'for up to 10 minutes, more and more rarely',
      signed: 'unsaid',
      lastS: 600,
      from: page('discord/discord-api-docs, “Webhook Events”', 'August 2026'),
    },
    answer: {
      what: 'a 204 within 3 seconds',
      from: code('discord/discord-api-docs, developers/events/webhook-events.mdx'),
    },
    evidence: {
      signature: ran('discord-interactions'),
      handshake: page('discord/discord-api-docs, “Webhook Events”', 'August 2026'),
      event: page('discord/discord-api-docs, “Webhook Events”', 'August 2026'),
      rotation: silent('discord/discord-api-docs'),
    },
    steps: [
      'In the Developer Portal open the app → Webhooks and enter the URL of the table as the endpoint.',
      'Switch the events on, choose them and save.',
    ],
    notes: [
      'Discord has two protocols with the same signature. This one is for webhook events, where `"type": 1` is an event; `USING discord_interactions` is for slash commands and buttons.',
    ],
    example: ({ id, nowMs }) => ({
      version: 1,
      application_id: String(numeric(id)),
      type: 1,
      event: { type: 'ENTITLEMENT_CREATE', timestamp: isoTime(nowMs), data: { id: String(numeric(id)) } },
    }),
  }),
  protocol({
    id: 'discord_interactions',
    aliases: ['discord_commands'],
    name: 'Discord (interactions)',
    toleranceS: 300,
    delivery: known(
      { fields: [['id']] },
      page(
        'discord/discord-api-docs, “Overview of Interactions” and “Receiving and Responding”',
        'August 2026',
      ),
    ),
    answer: {
      what: 'an answer within 3 seconds',
      from: page(
        'discord/discord-api-docs, “Overview of Interactions” and “Receiving and Responding”',
        'August 2026',
      ),
    },
    evidence: {
      signature: ran('discord-interactions'),
      handshake: page(
        'discord/discord-api-docs, “Overview of Interactions” and “Receiving and Responding”',
        'August 2026',
      ),
    },
    steps: [
      'In the Developer Portal open the app → General Information and enter the URL of the table as the interactions endpoint URL.',
    ],
    notes: [
      'A stored interaction is answered with `{"type":5}`: Discord shows that the app is thinking, and the application that reads the table has 15 minutes to follow up through the API with the interaction’s `token`. For components and modals that need another answer, define it (`ALTER TABLE … ANSWER …`).',
      'An interaction’s `token` is stored in the table: anyone who may read it can answer in the app’s name for 15 minutes.',
    ],
    example: ({ id }) => ({
      id: String(numeric(id)),
      application_id: '1234560123453231555',
      type: 2,
      token: id,
      version: 1,
      data: { id: '771825006014889984', name: 'order', type: 1 },
    }),
  }),
];
