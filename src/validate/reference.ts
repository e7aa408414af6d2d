/** The reference page of VALIDATE expressions, printed from the table of functions. */
import { limits } from '../config/limits.ts';
import { rows } from './functions.ts';
import { type FunctionRow, type FunctionTheme, signature } from './function-table.ts';
import { printedType } from './types.ts';

const themes: Readonly<Record<FunctionTheme, string>> = {
  checks: 'Checks',
  digests: 'Digests',
  bytes: 'Bytes',
  text: 'Text',
  json: 'JSON',
  numbers: 'Numbers',
  time: 'Time',
  comparison: 'Comparison',
  casts: 'Casts',
  answers: 'For answers',
};

function cell(text: string): string {
  return text.replaceAll('|', String.raw`\|`);
}

function line(row: FunctionRow): string {
  return `| \`${cell(signature(row))}\` | ${printedType[row.result]} | ${cell(row.doc)} |`;
}

/** Operators on many types have the same description for each: one line for all. */
function comparisonLines(shown: readonly FunctionRow[]): string[] {
  const names = [...new Set(shown.map(({ name }) => name))];
  return names.map((name) => {
    const same = shown.filter((row) => row.name === name);
    const types = same.map((row) => printedType[row.args[0] ?? 'text']).join(', ');
    return `| \`${name}\` | boolean | ${same[0]?.doc ?? ''} For ${types}. |`;
  });
}

function castLines(shown: readonly FunctionRow[]): string[] {
  const sources = [...new Set(shown.map((row) => row.args[0] ?? 'text'))];
  return sources.map((source) => {
    const targets = shown.filter((row) => row.args[0] === source);
    const printed = targets.map((row) => printedType[row.result] + (row.doc === '' ? '' : ` (${row.doc})`));
    return `| ${printedType[source]} | ${cell(printed.join('; '))} |`;
  });
}

function section(theme: FunctionTheme): string {
  const shown = rows.filter((row) => row.theme === theme && row.refused === null);
  if (theme === 'casts') {
    return `### ${themes[theme]}\n\n\`x::type\` or \`CAST(x AS type)\`.\n\n| from | to |\n| --- | --- |\n${castLines(shown).join('\n')}\n`;
  }
  const lines = theme === 'comparison' ? comparisonLines(shown) : shown.map(line);
  return `### ${themes[theme]}\n\n| form | result | what |\n| --- | --- | --- |\n${lines.join('\n')}\n`;
}

const introduction = `# VALIDATE expressions

\`\`\`sql
CREATE TABLE github (data JSONB) WITH (connector = 'webhook')
VALIDATE SECRET github_key AS
  secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(github_key, data, 'sha256'), 'hex'))
\`\`\`

The secret has to exist before the table: \`CREATE SECRET github_key WITH (backend = 'meta') AS '…'\`. The whole way for
[a signature of your own](#a-signature-of-your-own) is at the end of this page.

A request is accepted if the expression is true; false, NULL and every error refuse it with \`401\`. The expression is
parsed by PostgreSQL's own parser, means the same as in PostgreSQL (version 18, UTF-8, locale C.UTF-8, time zone UTC), and
is compiled when the table is created. Other functions and operators are refused then, with their position.

## Names

| name | type | what |
| --- | --- | --- |
| \`headers\` | jsonb | the request's headers, names in lower case, values decoded as UTF-8 (other bytes refuse the request) |
| the JSONB column's name, or \`payload\` | bytea | the body as it arrived, decompressed; empty for a GET, whose sender signs \`query\` or \`url\` |
| each bound secret | text | its value |
| \`encoded_body\` | bytea | the body as it was sent, before its \`Content-Encoding\` was undone; the same as the body if it has none |
| \`method\`, \`path\` | text | of the request, as received; the path without the query |
| \`query\` | jsonb | the query string's fields; of several fields with the same name, the last |
| \`url\` | text | \`HEADGATE_PUBLIC_URL\`, path and query as the sender called it; NULL without that setting |
| \`now()\` | timestamptz | the time of arrival |

## Accepted expressions

- It is boolean, and it cannot be true unless a check has succeeded: \`secure_compare\`, \`secure_compare_any\`, a \`…_verify\`
  function with a key that does not come from the request, or an equality (\`=\`, \`= ANY\`, \`IN\`) of text or bytes, one side of
  which is computed from a secret or by \`hmac\`, the other only from the request. Every OR branch is judged, as are NOT, CASE,
  COALESCE and IS. \`true\`, \`… OR true\` and \`headers->>'x' = 'key'\` are refused.
- A value counts as computed from a secret only if no part of the request can choose or empty it:
  \`coalesce(headers->>'x', secret)\` and \`left(secret, (headers->>'n')::int)\` do not count. Of a digest that is cut, at least
  8 characters must be left: neither \`substr(encode(hmac(…), 'hex'), 65)\` nor \`left((headers->>'x') || secret, 8)\` counts.
- Every comparison of a secret or an HMAC takes constant time, also by \`=\` and \`<>\`. CREATE TABLE and ALTER TABLE say in a NOTICE if one is written without \`secure_compare\`.
- If a header that the expression names by \`headers->>'…'\` arrives twice, the request is refused; \`header_values('…')\` has all its values; an expression that reads \`headers\` as a
  whole refuses a request in which any header arrives twice.
- The scheme of \`Authorization\` may be written in any case (RFC 9110), and \`secure_compare\` distinguishes them:
  \`lower(left(headers->>'authorization', 7)) = 'bearer ' AND secure_compare(substr(headers->>'authorization', 8), secret)\`.
- A header name that is not in lower case can never match: CREATE TABLE warns.
- \`encode(…, 'base64')\` of 57 bytes or more, such as an HMAC with SHA-512, has a line break after 76 characters, unlike senders' signatures: CREATE TABLE and
  ALTER TABLE warn. Remove it: \`replace(encode(hmac(s, payload, 'sha512'), 'base64'), E'\\n', '')\`.
- Its cost is bounded when it is created: numbers for \`repeat\` and patterns of \`LIKE\` are constants, a value may be
  ${limits.expressionValueBodiesMax} times as long as the body, a text from JSON up to ${limits.expressionJsonCharsMax} characters, a numeric up to ${limits.expressionDigitsMax} digits, a list in a
  comparison up to ${limits.expressionListItemsMax} items; a request that exceeds this is refused. So is one of which its functions read more than ${limits.expressionReadBytesMax / 2 ** 20} MiB together
  (a byte of JSON counts ${limits.expressionJsonWeight} times), because nobody else is served meanwhile: three HMACs of a body of 25 MiB, or a hundred of one of 960 KiB.

In addition to the functions and operators below: \`AND OR NOT\`, \`IS [NOT] NULL | TRUE | FALSE | UNKNOWN\`, \`IS [NOT] DISTINCT FROM\`,
\`[NOT] IN (…)\`, \`[NOT] BETWEEN\`, \`[NOT] LIKE\` (\`~~\`), \`= ANY (text[])\`, \`<> ALL (text[])\`, \`CASE\`, \`coalesce\`, \`nullif\`, \`greatest\`,
\`least\`, \`ARRAY[…]\` of text, \`current_timestamp\`, and the SQL forms \`substring(x FROM n FOR n)\`, \`position(x IN y)\`,
\`trim(BOTH x FROM y)\`, \`extract(epoch FROM x)\`.

## Functions, operators, casts

`;

const keysOfAnIssuer = `
## Keys of an issuer

An identity provider signs its tokens with keys that it replaces, and publishes at a URL (a JWK set, at the provider's \`jwks_uri\`). \`jwt_verify\` with \`jwks\` takes the keys from there, if
[\`HEADGATE_JWKS_HOSTS\`](../settings.md) lists the host; by default it lists none, and such a table cannot be created. For Google's Pub/Sub:

\`\`\`sql
-- HEADGATE_JWKS_HOSTS=www.googleapis.com:443
CREATE TABLE pushed (data JSONB) WITH (connector = 'webhook')
  VALIDATE AS
    jwt_verify(substr(headers->>'authorization', 8), jwks => 'https://www.googleapis.com/oauth2/v3/certs',
      issuer => 'https://accounts.google.com', audience => 'https://hooks.example.com/webhook/dev/public/pushed')
    ->>'email' = 'pusher@my-project.iam.gserviceaccount.com';
\`\`\`

- The URL, the issuer and the audience are constants. A provider signs for everybody who has an account there, so the token must have this \`iss\` and this \`aud\`, and an \`exp\`. If the
  audience is no secret of yours, compare a claim that only your sender has, as above.
- The key decides the algorithm: RSA of ${limits.jwksRsaBitsMin} to ${limits.jwksRsaBitsMax} bits (RS256, RS384, RS512), P-256, P-384, P-521 (ES…), Ed25519 (EdDSA); if it has an \`alg\`, only that one. Secret keys and keys for encryption are ignored.
- The token's \`kid\` chooses the key. A set has up to ${limits.jwksKeysMax} keys and ${limits.jwksBytesMax / 1024} KiB.
- Keys are fetched when the first request needs them, which waits up to ${limits.outgoingMs / 1_000} s for it, and again behind a request when they are ${limits.jwksFreshMs / 60_000} minutes old. A token with an unknown \`kid\` has them
  fetched at once, but not within ${limits.jwksPauseMs / 1_000} s of the last time. If they cannot be fetched, the last ones are used for ${limits.jwksStaleMs / 3_600_000} hours; without any, requests get \`503\`, and the log says why (\`jwks.failed\`).
- Only over TLS, to public addresses, without redirects and proxies: [outgoing calls](../security.md#outgoing-calls).
`;

/** ShipEngine's: a signature of the time and the body, by the key that a header names. */
export const publishedSignature = `abs(extract(epoch from now()) - extract(epoch from (headers->>'x-shipengine-timestamp')::timestamptz)) <= 300
    AND rsa_verify(jwks_key('https://api.shipengine.com/jwks', headers->>'x-shipengine-rsa-sha256-key-id'),
      convert_to((headers->>'x-shipengine-timestamp') || '.', 'UTF8') || payload,
      decode(headers->>'x-shipengine-rsa-sha256-signature', 'base64'), 'sha256')`;

const publishedKeys = `
## A signature by a published key

Where the sender publishes its keys and signs no token but the body, \`jwks_key\` gives the key that the request names. For ShipEngine and ShipStation:

\`\`\`sql
-- HEADGATE_JWKS_HOSTS=api.shipengine.com:443
CREATE TABLE shipped (data JSONB) WITH (connector = 'webhook')
  VALIDATE AS
    ${publishedSignature};
\`\`\`

The request chooses among the keys of this URL, and cannot bring one of its own. A sender signs for all its customers with them: compare what only yours has, such as an id of the account.
Keys are fetched, kept and limited [as for tokens](#keys-of-an-issuer). This check was made from the source of public receivers; ShipEngine itself has not been asked.
`;

const ownSignature = `
## A signature of your own

A program of yours signs the body with HMAC-SHA-256, and names the event in a header:

\`\`\`sql own-table
CREATE SECRET IF NOT EXISTS orders_secret WITH (backend = 'meta') AS 'a long random key';
CREATE TABLE IF NOT EXISTS orders (data JSONB)
  INCLUDE HEADER 'x-event' AS event
  INCLUDE HEADER 'x-signature' AS signature
  INCLUDE TIMESTAMP AS received_at
  INCLUDE HEADERS AS headers
  INCLUDE BODY AS raw
  WITH (connector = 'webhook')
  VALIDATE SECRET orders_secret AS
    secure_compare(headers->>'x-signature', encode(hmac(orders_secret, data, 'sha256'), 'hex'));
\`\`\`

\`headgate secrets set orders_secret\` asks for a key of your own, and shows none of it. Because the signature is kept as well, \`headgate listen\` and
\`headgate replay\` send each request on byte for byte.

\`\`\`sh own-request
body='{"id":7,"status":"paid"}'
signature=$(printf %s "$body" | openssl dgst -sha256 -hmac 'a long random key' -r | cut -d' ' -f1)
curl -H 'X-Event: order.paid' -H "X-Signature: $signature" -d "$body" http://localhost:4560/webhook/dev/public/orders
\`\`\`

\`\`\`sql own-row
SELECT event, data FROM orders;
\`\`\`
`;

/** The Markdown of docs/sql/validate.md. */
export function validateReference(): string {
  const sections = (Object.keys(themes) as FunctionTheme[]).map(section);
  return `${introduction}${sections.join('\n')}${keysOfAnIssuer}${publishedKeys}${ownSignature}\nThis page is printed from \`src/validate/function-table.ts\` and \`src/validate/functions*.ts\`.\n`;
}
