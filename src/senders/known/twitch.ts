/** Twitch EventSub. */
import { code, unverified } from '../evidence.ts';
import { freshIso, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoSeconds, mac, uuid } from '../signing.ts';

const twitchTime = 'Twitch-Eventsub-Message-Timestamp';

const twitchId = 'Twitch-Eventsub-Message-Id';

export const twitch: Sender = sender('A signature of the body and a timestamp', {
  id: 'twitch',
  name: 'Twitch EventSub',
  toleranceS: 600,
  headers: ['Twitch-Eventsub-Message-Signature', twitchId, twitchTime],
  secret: { what: 'the subscription’s secret, 10 to 100 ASCII characters', where: 'you choose it' },
  delivery: unverified({ header: 'Twitch-Eventsub-Message-Id' }),
  evidence: {
    signature: code('twitchdev/twitch-cli, internal/events/trigger'),
    handshake: code('twitchdev/twitch-cli, internal/events/verify'),
  },
  steps: [
    'Create subscriptions through the API: `transport.callback` is the URL of the table, `transport.secret` the secret.',
  ],
  expression: (s) =>
    `${freshIso(header(twitchTime), 600)}\n  AND secure_compare(${header('Twitch-Eventsub-Message-Signature')},\n    'sha256=' || ` +
    `${hmac(s, `${utf8(`${headerOperand(twitchId)} || ${headerOperand(twitchTime)}`)} || payload`, 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey, id }) => {
    const time = `${isoSeconds(nowMs).slice(0, -1)}.123456789Z`;
    return {
      headers: {
        [twitchId]: uuid(id),
        [twitchTime]: time,
        'Twitch-Eventsub-Message-Signature': `sha256=${mac('sha256', signingKey, 'hex', uuid(id), time, body)}`,
      },
    };
  },
  eventHeaders: () => ({
    'Twitch-Eventsub-Message-Type': 'notification',
    'Twitch-Eventsub-Subscription-Type': 'channel.follow',
  }),
  example: ({ id, nowMs }) => ({
    subscription: { id: uuid(id), type: 'channel.follow', status: 'enabled' },
    event: { user_login: 'zoe', broadcaster_user_login: 'acme', followed_at: isoSeconds(nowMs) },
  }),
});
