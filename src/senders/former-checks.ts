/**
 * The checks that `USING` stood for before an entry was changed: a table keeps the expression that it was made with, and is still known to
 * be this sender's. By id: what is different `since`, as a sentence's end, and the texts, oldest first; `:secret` is the secret's name. Never
 * changed, only added to.
 */
interface FormerChecks {
  readonly since: string;
  readonly checks: readonly string[];
}

export const formerChecks: Readonly<Record<string, FormerChecks>> = {
  alertmanager: {
    since: 'the scheme `bearer` may be written in any case',
    checks: ["secure_compare(headers->>'authorization', 'Bearer ' || :secret)"],
  },
  attentive: {
    since: 'a signature in base64 is accepted, too',
    checks: [
      "secure_compare(headers->>'x-attentive-hmac-sha256', encode(hmac(:secret, payload, 'sha256'), 'hex'))",
    ],
  },
  auth0: {
    since: 'the scheme `bearer` may be written in any case',
    checks: ["secure_compare(headers->>'authorization', 'Bearer ' || :secret)"],
  },
  aws_eventbridge: {
    since: 'the scheme `bearer` may be written in any case',
    checks: ["secure_compare(headers->>'authorization', 'Bearer ' || :secret)"],
  },
  basic_auth: {
    since: 'the scheme `basic` may be written in any case',
    checks: [
      "secure_compare(headers->>'authorization', 'Basic ' || replace(encode(convert_to(:secret, 'UTF8'), 'base64'), E'\\n', ''))",
    ],
  },
  bearer: {
    since: 'the scheme `bearer` may be written in any case',
    checks: ["secure_compare(headers->>'authorization', 'Bearer ' || :secret)"],
  },
  bigcommerce: {
    since: 'BigCommerce signs by Standard Webhooks; before, it sent a token',
    checks: ["secure_compare(headers->>'authorization', :secret)"],
  },
  chargebee: {
    since: 'the scheme `basic` may be written in any case',
    checks: [
      "secure_compare(headers->>'authorization', 'Basic ' || replace(encode(convert_to(:secret, 'UTF8'), 'base64'), E'\\n', ''))",
    ],
  },
  clerk: {
    since: 'a key without its padding is accepted',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'svix-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(:secret, 'whsec_', ''), 'base64'),\n      convert_to((headers->>'svix-id') || '.' || (headers->>'svix-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'svix-signature', ' '))",
    ],
  },
  cloudevents: {
    since: 'the scheme `bearer` may be written in any case',
    checks: ["secure_compare(headers->>'authorization', 'Bearer ' || :secret)"],
  },
  coinbase_cdp: {
    since: 'the signature `v1=`, which covers headers, is accepted, too',
    checks: [
      "abs(extract(epoch from now()) - (split_part(split_part(',' || replace(headers->>'x-hook0-signature', ' ', ''), ',t=', 2), ',', 1))::bigint) <= 300\n  AND secure_compare_any('v0=' || encode(hmac(:secret, convert_to(split_part(split_part(',' || replace(headers->>'x-hook0-signature', ' ', ''), ',t=', 2), ',', 1) || '.', 'UTF8') || payload, 'sha256'), 'hex'),\n    string_to_array(replace(headers->>'x-hook0-signature', ' ', ''), ','))",
    ],
  },
  convoy: {
    since: 'SHA-256 is accepted, too',
    checks: [
      "secure_compare(headers->>'x-convoy-signature', encode(hmac(:secret, payload, 'sha512'), 'hex'))",
    ],
  },
  datadog: {
    since: 'the scheme `basic` may be written in any case',
    checks: [
      "secure_compare(headers->>'authorization', 'Basic ' || replace(encode(convert_to(:secret, 'UTF8'), 'base64'), E'\\n', ''))",
    ],
  },
  discord: {
    since: 'a signature is valid for 15 minutes, because Discord tries again for 10',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'x-signature-timestamp')::bigint) <= 300\n  AND ed25519_verify(decode(:secret, 'hex'), convert_to(headers->>'x-signature-timestamp', 'UTF8') || payload,\n    decode(headers->>'x-signature-ed25519', 'hex'))",
    ],
  },
  fireflies: {
    since: 'the signature may come without `sha256=`',
    checks: [
      "secure_compare(headers->>'x-hub-signature', 'sha256=' || encode(hmac(:secret, payload, 'sha256'), 'hex'))",
    ],
  },
  gitlab_signed: {
    since: 'a key without its padding is accepted',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'webhook-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(:secret, 'whsec_', ''), 'base64'),\n      convert_to((headers->>'webhook-id') || '.' || (headers->>'webhook-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'webhook-signature', ' '))",
    ],
  },
  kubernetes_audit: {
    since: 'the scheme `bearer` may be written in any case',
    checks: ["secure_compare(headers->>'authorization', 'Bearer ' || :secret)"],
  },
  linear: {
    since: 'a signature is valid for 8 hours, because Linear repeats its first one for 7',
    checks: [
      "secure_compare(headers->>'linear-signature', encode(hmac(:secret, payload, 'sha256'), 'hex'))\n  AND abs(extract(epoch from now()) * 1000 - (convert_from(payload, 'UTF8')::jsonb->>'webhookTimestamp')::bigint) <= 60000",
    ],
  },
  mailgun: {
    since: 'a signature is valid for 9 hours, because Mailgun repeats its first one for 8',
    checks: [
      "abs(extract(epoch from now()) - (convert_from(payload, 'UTF8')::jsonb #>> '{signature,timestamp}')::bigint) <= 900\n  AND secure_compare(convert_from(payload, 'UTF8')::jsonb #>> '{signature,signature}',\n    encode(hmac(:secret, convert_to((convert_from(payload, 'UTF8')::jsonb #>> '{signature,timestamp}') || (convert_from(payload, 'UTF8')::jsonb #>> '{signature,token}'), 'UTF8'), 'sha256'), 'hex'))",
    ],
  },
  mollie: {
    since: 'the header may come twice, while a secret is being changed',
    checks: [
      "secure_compare(headers->>'x-mollie-signature', 'sha256=' || encode(hmac(:secret, payload, 'sha256'), 'hex'))",
    ],
  },
  nylas: {
    since: 'compressed deliveries are accepted, too',
    checks: [
      "secure_compare(headers->>'x-nylas-signature', encode(hmac(:secret, payload, 'sha256'), 'hex'))",
    ],
  },
  openai: {
    since: 'a key without its padding is accepted',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'webhook-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(:secret, 'whsec_', ''), 'base64'),\n      convert_to((headers->>'webhook-id') || '.' || (headers->>'webhook-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'webhook-signature', ' '))",
    ],
  },
  paddle: {
    since: 'a signature is valid for 5 minutes; before, it was 5 seconds',
    checks: [
      "extract(epoch from now()) - split_part(split_part(';' || replace(headers->>'paddle-signature', ' ', ''), ';ts=', 2), ';', 1)::bigint <= 5\n  AND secure_compare_any('h1=' || encode(hmac(:secret, convert_to(split_part(split_part(';' || replace(headers->>'paddle-signature', ' ', ''), ';ts=', 2), ';', 1) || ':', 'UTF8') || payload, 'sha256'), 'hex'),\n    string_to_array(replace(headers->>'paddle-signature', ' ', ''), ';'))",
    ],
  },
  pipedrive: {
    since: 'the scheme `basic` may be written in any case',
    checks: [
      "secure_compare(headers->>'authorization', 'Basic ' || replace(encode(convert_to(:secret, 'UTF8'), 'base64'), E'\\n', ''))",
    ],
  },
  postmark: {
    since: 'the scheme `basic` may be written in any case',
    checks: [
      "secure_compare(headers->>'authorization', 'Basic ' || replace(encode(convert_to(:secret, 'UTF8'), 'base64'), E'\\n', ''))",
    ],
  },
  recharge: {
    since: 'the signature that covers the time is checked, if there is one',
    checks: [
      "secure_compare(headers->>'x-recharge-hmac-sha256', encode(sha256(convert_to(:secret, 'UTF8') || payload), 'hex'))",
    ],
  },
  resend: {
    since: 'a key without its padding is accepted',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'svix-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(:secret, 'whsec_', ''), 'base64'),\n      convert_to((headers->>'svix-id') || '.' || (headers->>'svix-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'svix-signature', ' '))",
    ],
  },
  ringcentral: {
    since:
      'the token is read from `Verification-Token`; before, from another header, which events do not have',
    checks: ["secure_compare(headers->>'validation-token', :secret)"],
  },
  sendgrid: {
    since: 'a signature is valid for 25 hours, because SendGrid tries again for 24',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'x-twilio-email-event-webhook-timestamp')::bigint) <= 300\n  AND ecdsa_verify(decode(:secret, 'base64'), convert_to(headers->>'x-twilio-email-event-webhook-timestamp', 'UTF8') || payload,\n    decode(headers->>'x-twilio-email-event-webhook-signature', 'base64'), 'sha256')",
    ],
  },
  shopify: {
    since: '`Shopify-Hmac-Sha256` is read where `X-Shopify-Hmac-Sha256` is missing',
    checks: [
      "secure_compare(headers->>'x-shopify-hmac-sha256', encode(hmac(:secret, payload, 'sha256'), 'base64'))",
    ],
  },
  standard_webhooks: {
    since: 'a key without its padding is accepted, and headers that begin with `svix-` are read',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'webhook-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(:secret, 'whsec_', ''), 'base64'),\n      convert_to((headers->>'webhook-id') || '.' || (headers->>'webhook-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'webhook-signature', ' '))",
    ],
  },
  supabase_auth: {
    since: 'a key without its padding is accepted, and signatures may be separated by a comma',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'webhook-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(replace(:secret, 'v1,', ''), 'whsec_', ''), 'base64'),\n      convert_to((headers->>'webhook-id') || '.' || (headers->>'webhook-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'webhook-signature', ' '))",
      "abs(extract(epoch from now()) - (headers->>'webhook-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(replace(:secret, 'v1,', ''), 'whsec_', '')\n    || CASE length(replace(replace(:secret, 'v1,', ''), 'whsec_', '')) % 4 WHEN 2 THEN '==' WHEN 3 THEN '=' ELSE '' END, 'base64'),\n      convert_to((headers->>'webhook-id') || '.' || (headers->>'webhook-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'webhook-signature', ' '))",
    ],
  },
  svix: {
    since: 'a key without its padding is accepted, and headers that begin with `webhook-` are read',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'svix-timestamp')::bigint) <= 300\n  AND secure_compare_any('v1,' || encode(hmac(decode(replace(:secret, 'whsec_', ''), 'base64'),\n      convert_to((headers->>'svix-id') || '.' || (headers->>'svix-timestamp') || '.', 'UTF8') || payload, 'sha256'), 'base64'),\n    string_to_array(headers->>'svix-signature', ' '))",
    ],
  },
  twilio: {
    since: 'the SHA-256 of Webhook Rules is accepted, too',
    checks: [
      "secure_compare(headers->>'x-twilio-signature', encode(hmac(:secret, convert_to(url, 'UTF8'), 'sha1'), 'base64'))\n  AND secure_compare(query->>'bodySHA256', encode(sha256(payload), 'hex'))",
    ],
  },
  twilio_form: {
    since: 'the SHA-256 of Webhook Rules is accepted, too',
    checks: [
      "secure_compare(headers->>'x-twilio-signature', encode(hmac(:secret, convert_to(url || form_sorted(payload), 'UTF8'), 'sha1'), 'base64'))",
    ],
  },
  websub: {
    since: 'SHA-384 and SHA-512 are accepted, too',
    checks: [
      "secure_compare(headers->>'x-hub-signature', 'sha256=' || encode(hmac(:secret, payload, 'sha256'), 'hex'))\n  OR secure_compare(headers->>'x-hub-signature', 'sha1=' || encode(hmac(:secret, payload, 'sha1'), 'hex'))",
    ],
  },
  zoom: {
    since: 'a signature is valid for 2 hours, because Zoom tries again for 85 minutes',
    checks: [
      "abs(extract(epoch from now()) - (headers->>'x-zm-request-timestamp')::bigint) <= 300\n  AND secure_compare(headers->>'x-zm-signature',\n    'v0=' || encode(hmac(:secret, convert_to('v0:' || (headers->>'x-zm-request-timestamp') || ':', 'UTF8') || payload, 'sha256'), 'hex'))",
    ],
  },
};

/** Until when they were the present ones. */
export const formerUntil = '27 November 2026';

export function formerExpressions(id: string): readonly ((secret: string) => string)[] {
  const { checks = [] } = Object.hasOwn(formerChecks, id) ? (formerChecks[id] ?? {}) : {};
  return checks.map((text) => (secret: string) => text.replaceAll(':secret', () => secret));
}
