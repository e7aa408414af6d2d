/**
 * Checks for senders that follow a general rule, with what has to be filled in: message signatures (RFC 9421), OAuth, detached signatures
 * (RFC 7515, appendix F). Texts only.
 */
import { padded } from './expressions.ts';

/** Three components, in this order, one of which covers the body. `key` is the shared key's text. */
export const messageSignature = `starts_with(headers->>'signature-input', 'sig1=("@method" "@path" "content-digest");created=')
  AND abs(extract(epoch from now()) - split_part(split_part(headers->>'signature-input', ';created=', 2), ';', 1)::bigint) <= 300
  AND secure_compare(headers->>'content-digest', 'sha-256=:' || encode(sha256(payload), 'base64') || ':')
  AND secure_compare(headers->>'signature', 'sig1=:' || encode(hmac(key, convert_to(
    '"@method": ' || method
    || E'\\n"@path": ' || path
    || E'\\n"content-digest": ' || (headers->>'content-digest')
    || E'\\n"@signature-params": ' || substr(headers->>'signature-input', 6), 'UTF8'), 'sha256'), 'base64') || ':')`;

export const oauthToken = `lower(left(headers->>'authorization', 7)) = 'bearer '
  AND jwt_verify(substr(headers->>'authorization', 8), jwks => 'https://login.example.com/.well-known/jwks.json',
    issuer => 'https://login.example.com/', audience => 'https://hooks.example.com') IS NOT NULL`;

const part = (place: number) => `split_part(headers->>'fireblocks-webhook-signature', '.', ${place})`;
const base64Of = (place: number) => padded(`translate(${part(place)}, '-_', '+/')`);

/** `header..signature`: what is signed has the body in the middle. */
export const detachedSignature = `rsa_verify(
    jwks_key('https://keys.fireblocks.io/.well-known/jwks.json',
      convert_from(decode(${base64Of(1)}, 'base64'), 'UTF8')::jsonb->>'kid'),
    convert_to(${part(1)} || '.' || translate(encode(payload, 'base64'), E'+/=\\n', '-_'), 'UTF8'),
    decode(${base64Of(3)}, 'base64'), 'sha512')`;

export function ownChecksPage(printedFrom: string): string {
  return `# Checks for senders without an entry

## Message signatures (RFC 9421)

The sender names the components that it signs in \`Signature-Input\`. An expression cannot loop over a list, so the list is fixed: requests with
another one are refused. Choose one that covers the body (\`content-digest\`), and write a line for each component:

\`\`\`sql
CREATE TABLE signed_events (data JSONB) WITH (connector = 'webhook')
VALIDATE SECRET key AS
  ${messageSignature};
\`\`\`

With a key pair, \`ed25519_verify\`, \`ecdsa_verify\` or \`rsa_pss_verify\` takes the place of the second \`secure_compare\`, with the same text. The
digest may also be \`sha-512\`. Behind a proxy, \`@path\` has to arrive as the sender wrote it.

## OAuth bearer tokens

Fireblocks, Persona, AfterShip and Twilio’s Webhook Rules, among others, can get a token from a provider of yours (client credentials) before they
deliver. If it is a JSON Web Token, it is checked with the keys that the provider publishes (at its \`jwks_uri\`), if \`HEADGATE_JWKS_HOSTS\` lists
[that host](../sql/validate.md#keys-of-an-issuer):

\`\`\`sql
CREATE TABLE token_events (data JSONB) WITH (connector = 'webhook')
VALIDATE AS
  ${oauthToken};
\`\`\`

Where nothing may be fetched, put the text of the key set into a secret, \`jwt_verify(…, keys)\`, compare its \`iss\` and \`aud\`, and renew it with \`ALTER SECRET\`. Nothing of the
body is signed by such a token: if the sender also signs, check that, too. An opaque token that does not change is compared by \`USING bearer\`.

## A detached signature (Fireblocks)

Fireblocks signs, from version 2 of its webhooks on, with keys that it publishes; \`HEADGATE_JWKS_HOSTS\` has to list their host. Its signature is a JSON Web Signature from which
the body is left out (\`header..signature\`), with RS512 in this check whatever the header says:

\`\`\`sql
-- HEADGATE_JWKS_HOSTS=keys.fireblocks.io:443
CREATE TABLE fireblocks_v2_events (data JSONB) WITH (connector = 'webhook')
VALIDATE AS
  ${detachedSignature};
\`\`\`

The host is \`eu-keys.fireblocks.io\`, \`eu2-keys.fireblocks.io\` or \`sandbox-keys.fireblocks.io\` in other environments. Fireblocks signs for all its customers with these keys, and signs no time:
compare the id of your workspace, and store an event once by its \`id\`. This check was made from the source of public receivers; Fireblocks itself has not been asked. ShipEngine’s is among
[the functions](../sql/validate.md#a-signature-by-a-published-key).

${printedFrom}`;
}
