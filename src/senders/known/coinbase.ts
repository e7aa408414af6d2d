/** Coinbase Commerce, which was closed, and the Coinbase Developer Platform. */
import { page, ran, unverified } from '../evidence.ts';
import { element, elements, fresh, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, isoTime, numeric, uuid } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

const hook0 = 'X-Hook0-Signature';

/** The headers that `h` may name; an expression cannot read one whose name a request chooses. */
const signedHeaders = ['content-type', 'x-event-id', 'x-event-type', 'x-hook0-id', 'user-agent'];
const list = `split_part(split_part(',' || ${headerOperand(hook0)}, ',h=', 2), ',', 1)`;
/** The value of the header that `h` names at that place, after a point; nothing behind its end; NULL for another name. */
const valueAt = (place: number): string => {
  const values = signedHeaders.map((name) => `WHEN '${name}' THEN '.' || coalesce(${header(name)}, '')`);
  return `CASE split_part(${list}, ' ', ${place}) WHEN '' THEN '' ${values.join(' ')} END`;
};

/** `v0` covers time and body; newer subscriptions send `v1` alone, which covers the headers of `h` as well. */
const hook0Check = (s: string): string => {
  const at = element(hook0, 't', ',');
  const v1 = `${at} || '.' || ${list}\n      || ${[1, 2, 3].map(valueAt).join('\n      || ')} || '.'`;
  return (
    `${fresh(at, 300)}\n  AND (secure_compare_any('v0=' || ${hmac(s, `${utf8(`${at} || '.'`)} || payload`, 'sha256', 'hex')},\n    ${elements(hook0, ',')})\n` +
    `  OR secure_compare_any('v1=' || ${hmac(s, `${utf8(v1)} || payload`, 'sha256', 'hex')},\n    ${elements(hook0, ',')}))`
  );
};

export const coinbase: readonly Sender[] = [
  hmacBody({
    id: 'coinbase_commerce',
    name: 'Coinbase Commerce',
    ended: 'Coinbase Commerce was closed on 31 March 2026: its successor sends as `USING coinbase_cdp`.',
    headers: ['X-CC-Webhook-Signature'],
    secret: { what: 'the webhook shared secret', where: 'Settings → Notifications' },
    delivery: unverified({ fields: [['event', 'id']] }),
    evidence: { signature: ran('coinbase-commerce-node') },
    steps: [
      'Open Settings → Notifications, add the URL of the table as an endpoint and show the shared secret.',
    ],
    example: ({ id, nowMs }) => ({
      id: numeric(id),
      scheduled_for: isoSeconds(nowMs),
      event: { id: uuid(id), type: 'charge:confirmed', data: { code: '66BEOV2A' } },
    }),
  }),
  timestampedList({
    id: 'coinbase_cdp',
    aliases: ['coinbase'],
    name: 'Coinbase Developer Platform',
    time: 't',
    version: 'v0',
    toleranceS: 300,
    headers: [hook0, ...signedHeaders],
    expression: hook0Check,
    secret: {
      what: 'the subscription’s secret',
      where: '`metadata.secret` in the answer of the call that creates it',
    },
    evidence: { signature: page('docs.cdp.coinbase.com/webhooks/verify-signatures', 'November 2026') },
    steps: ['Create the subscription through the API with the URL of the table as its target.'],
    notes: [
      'The check accepts `v0`, which covers time and body, and `v1`, which also covers up to three headers out of `content-type`, `x-event-id`, `x-event-type`, `x-hook0-id` and `user-agent`.',
    ],
    example: ({ id, nowMs }) => ({
      id: uuid(id),
      type: 'onchain.activity.detected',
      createdAt: isoTime(nowMs),
      data: { network: 'base-mainnet', value: '1250000' },
    }),
  }),
];
