/** Senders that sign the bytes of the body, and nothing else, with an HMAC in one header. */
import { elements, header, hmac } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, sender } from './sender.ts';
import { mac } from './signing.ts';

interface HmacSpec extends SenderSpec {
  readonly prefix?: string;
  readonly algorithm?: 'md5' | 'sha1' | 'sha256' | 'sha512';
  readonly encoding?: 'hex' | 'base64';
  /** The key's encoding, if the secret is written in hexadecimal or base64. */
  readonly key?: 'hex' | 'base64';
}

/** The first header contains the signature. */
export function hmacBody(spec: HmacSpec): Sender {
  const { prefix = '', algorithm = 'sha256', encoding = 'hex', key, ...rest } = spec;
  const name = spec.headers[0] ?? '';
  const before = prefix === '' ? '' : `'${prefix}' || `;
  return sender('A signature of the body', {
    secretForm: key === undefined ? null : forms[key],
    expression: (s) => {
      const bytes = key === undefined ? s : `decode(${s}, '${key}')`;
      return `secure_compare(${header(name)}, ${before}${hmac(bytes, 'payload', algorithm, encoding)})`;
    },
    sign: ({ body, signingKey }) => {
      const bytes = key === undefined ? signingKey : Buffer.from(signingKey, key);
      return { headers: { [name]: prefix + mac(algorithm, bytes, encoding, body) } };
    },
    ...rest,
  });
}

/** One header with a list of `v1=` signatures; while a secret is being changed there are several. */
export function signatureList(spec: SenderSpec): Sender {
  const name = spec.headers[0] ?? '';
  return sender('A signature of the body', {
    expression: (s) =>
      `secure_compare_any('v1=' || ${hmac(s, 'payload', 'sha256', 'hex')}, ${elements(name, ',')})`,
    sign: ({ body, signingKey }) => ({ headers: { [name]: `v1=${mac('sha256', signingKey, 'hex', body)}` } }),
    ...spec,
  });
}

/** The repository of the code hosts’ examples. */
export const repository = { id: 5167, name: 'shop', full_name: 'acme/shop' };
