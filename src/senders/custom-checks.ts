/** Checks for senders that follow a general rule, with what has to be filled in: message signatures (RFC 9421) and OAuth. Texts only. */

/** Three components, in this order, one of which covers the body. `key` is the shared key's text. */
export const messageSignature = `starts_with(headers->>'signature-input', 'sig1=("@method" "@path" "content-digest");created=')
  AND abs(extract(epoch from now()) - split_part(split_part(headers->>'signature-input', ';created=', 2), ';', 1)::bigint) <= 300
  AND secure_compare(headers->>'content-digest', 'sha-256=:' || encode(sha256(payload), 'base64') || ':')
  AND secure_compare(headers->>'signature', 'sig1=:' || encode(hmac(key, convert_to(
    '"@method": ' || method
    || E'\\n"@path": ' || path
    || E'\\n"content-digest": ' || (headers->>'content-digest')
    || E'\\n"@signature-params": ' || substr(headers->>'signature-input', 6), 'UTF8'), 'sha256'), 'base64') || ':')`;

/** `keys` is the provider's JWK set. */
export const oauthToken = `lower(left(headers->>'authorization', 7)) = 'bearer '
  AND jwt_verify(substr(headers->>'authorization', 8), keys)->>'iss' = 'https://login.example.com/'
  AND jwt_verify(substr(headers->>'authorization', 8), keys)->>'aud' = 'https://hooks.example.com'`;

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
deliver. If it is a JSON Web Token, put the provider’s key set (the text at its \`jwks_uri\`) into a secret, and compare issuer and audience:

\`\`\`sql
CREATE TABLE token_events (data JSONB) WITH (connector = 'webhook')
VALIDATE SECRET keys AS
  ${oauthToken};
\`\`\`

Headgate fetches no keys: when the provider changes them, \`ALTER SECRET keys AS '…'\` with a set that has the old and the new one. Nothing of the
body is signed by such a token: if the sender also signs, check that, too. An opaque token that does not change is compared by \`USING bearer\`.

${printedFrom}`;
}
