/**
 * The checks that `USING` stood for before an entry was changed: a table keeps the expression that it was made with, and is still known to
 * be this sender's. By id. Texts only; never changed, only added to.
 */
import { element, elements, fresh, header, headerOperand, hmac, padded, utf8 } from './expressions.ts';

type Expression = (secret: string) => string;

/** Until December 2026: one form of headers, and a key with its padding. */
function standardPadded(prefix: 'webhook' | 'svix', ...keyPrefixes: readonly string[]): Expression {
  const at = header(`${prefix}-timestamp`);
  const [id, time] = [headerOperand(`${prefix}-id`), headerOperand(`${prefix}-timestamp`)];
  return (s) =>
    `abs(extract(epoch from now()) - (${at})::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(` +
    `decode(${keyPrefixes.reduce((text, start) => `replace(${text}, '${start}', '')`, s)}, 'base64'),\n      ` +
    `${utf8(`${id} || '.' || ${time} || '.'`)} || payload, 'sha256'), 'base64'),\n    string_to_array(${header(`${prefix}-signature`)}, ' '))`;
}

/** Supabase auth hooks until December 2026: several signatures separated by a blank only. */
const supabaseBlank: Expression = (s) => {
  const key = `replace(replace(${s}, 'v1,', ''), 'whsec_', '')`;
  const [id, time] = [header('webhook-id'), header('webhook-timestamp')];
  return (
    `${fresh(time, 300)}\n  AND secure_compare_any('v1,' || encode(hmac(decode(${padded(key)}, 'base64'),\n      ` +
    `${utf8(`(${id}) || '.' || (${time}) || '.'`)} || payload, 'sha256'), 'base64'),\n    string_to_array(${header('webhook-signature')}, ' '))`
  );
};

const bodyHmac =
  (name: string, algorithm: string, prefix = ''): Expression =>
  (s) =>
    `secure_compare(${header(name)}, ${prefix}${hmac(s, 'payload', algorithm, 'hex')})`;

export const earlierExpressions: Readonly<Record<string, readonly Expression[]>> = {
  standard_webhooks: [standardPadded('webhook', 'whsec_')],
  svix: [standardPadded('svix', 'whsec_')],
  supabase_auth: [standardPadded('webhook', 'v1,', 'whsec_'), supabaseBlank],
  mollie: [bodyHmac('X-Mollie-Signature', 'sha256', `'sha256=' || `)],
  nylas: [bodyHmac('X-Nylas-Signature', 'sha256')],
  fireflies: [bodyHmac('X-Hub-Signature', 'sha256', `'sha256=' || `)],
  attentive: [bodyHmac('x-attentive-hmac-sha256', 'sha256')],
  convoy: [bodyHmac('X-Convoy-Signature', 'sha512')],
  coinbase_cdp: [
    (s) =>
      `${fresh(element('X-Hook0-Signature', 't', ','), 300)}\n  AND secure_compare_any('v0=' || ` +
      `${hmac(s, `${utf8(`${element('X-Hook0-Signature', 't', ',')} || '.'`)} || payload`, 'sha256', 'hex')},\n    ${elements('X-Hook0-Signature', ',')})`,
  ],
  twilio: [
    (s) =>
      `secure_compare(${header('X-Twilio-Signature')}, ${hmac(s, utf8('url'), 'sha1', 'base64')})\n` +
      `  AND secure_compare(query->>'bodySHA256', encode(sha256(payload), 'hex'))`,
  ],
  twilio_form: [
    (s) =>
      `secure_compare(${header('X-Twilio-Signature')}, ${hmac(s, utf8('url || form_sorted(payload)'), 'sha1', 'base64')})`,
  ],
};
