/** WeChat official accounts. */
import { code, ran } from '../evidence.ts';
import { createHash } from 'node:crypto';
import { query } from '../clauses.ts';
import { fresh, utf8 } from '../expressions.ts';
import { type Sender, same, sender } from '../sender.ts';
import { numeric, seconds } from '../signing.ts';
import { chosen } from '../token-forms.ts';

/** WeChat signs the secret, the time and a random text in the order of their bytes; all six orders, each with the secret in it. */
const sorted = (s: string): string => {
  const [t, n] = [query('timestamp'), query('nonce')].map((text) => `(${text})`);
  const orders = (a: string, b: string) =>
    `CASE WHEN ${s} <= ${a} THEN ${s} || ${a} || ${b} WHEN ${s} <= ${b} THEN ${a} || ${s} || ${b} ELSE ${a} || ${b} || ${s} END`;
  return `CASE WHEN ${t} <= ${n}\n    THEN ${orders(t ?? '', n ?? '')}\n    ELSE ${orders(n ?? '', t ?? '')} END`;
};

export const wechat: Sender = sender('A signature of the URL or of fields', {
  id: 'wechat',
  aliases: ['weixin'],
  name: 'WeChat official accounts (plain mode)',
  headers: [],
  signatureHeader: null,
  signsBody: false,
  toleranceS: 300,
  contentType: 'text/xml',
  secret: chosen('the token, 3 to 32 letters and digits'),
  makeSecret: (random) => same(random(16).toString('hex')),
  evidence: { signature: [ran('wechatpy')], handshake: code('node-webot/wechat, lib/wechat.js') },
  steps: [
    'Open Settings and Development → Basic configuration → Server configuration: the URL of the table, the token, and plain mode. Submit, and enable it.',
  ],
  notes: [
    'The signature covers the token, the time and a random text, not the body: anyone who has seen one URL can send other bodies for five minutes.',
    'WeChat understands an empty answer as “no reply”. Replies go through its API. The encrypted modes cannot be checked.',
  ],
  expression: (s) =>
    `${fresh(query('timestamp'), 300)}\n  AND secure_compare(${query('signature')}, encode(sha1(${utf8(sorted(s))}), 'hex'))`,
  sign: ({ url, nowMs, signingKey, id }) => {
    const [timestamp, nonce] = [seconds(nowMs), String(numeric(id) % 1_000_000_000)];
    const text = [signingKey, timestamp, nonce].toSorted().join('');
    const full = new URL(url);
    full.searchParams.set('signature', createHash('sha1').update(text).digest('hex'));
    full.searchParams.set('timestamp', timestamp);
    full.searchParams.set('nonce', nonce);
    return { headers: {}, url: full.href };
  },
  example: ({ id, nowMs }) =>
    `<xml><ToUserName><![CDATA[gh_0123456789ab]]></ToUserName><FromUserName><![CDATA[o${id.slice(0, 27)}]]></FromUserName><CreateTime>${seconds(nowMs)}</CreateTime><MsgType><![CDATA[text]]></MsgType><Content><![CDATA[你好]]></Content><MsgId>${numeric(id)}</MsgId></xml>`,
});
