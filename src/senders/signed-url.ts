/** Senders that sign the URL that they call, alone or with the body or the fields of a form. */
import { header, hmac } from './expressions.ts';
import { type Draft, type Sender, type SenderSpec, sender } from './sender.ts';
import { mac } from './signing.ts';

export const formNote =
  "The body is a form: with `format = 'form'` its fields become a JSON object, and without it the request is refused with 422.";

/** Name and value of each field, sorted; identical pairs count once. */
export function sortedFields(body: Buffer): string {
  const pairs = new Map(
    [...new URLSearchParams(body.toString())].map((pair) => [JSON.stringify(pair), pair]),
  );
  const bytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  return [...pairs.values()]
    .toSorted((a, b) => bytes(a[0], b[0]) || bytes(a[1], b[1]))
    .map(([name, value]) => name + value)
    .join('');
}

/** One header with an HMAC, in base64, of the URL and of what `parts` returns. */
interface UrlSpec extends SenderSpec {
  readonly algorithm: 'sha1' | 'sha256';
  readonly bytes: string;
  readonly parts: (draft: Draft) => readonly (string | Buffer)[];
}

export function urlHmac(spec: UrlSpec): Sender {
  const { algorithm, bytes, parts, ...rest } = spec;
  const name = spec.headers[0] ?? '';
  return sender('A signature of the URL or of fields', {
    signsUrl: true,
    expression: (s) => `secure_compare(${header(name)}, ${hmac(s, bytes, algorithm, 'base64')})`,
    sign: (draft) => ({ headers: { [name]: mac(algorithm, draft.signingKey, 'base64', ...parts(draft)) } }),
    ...rest,
  });
}
