/** How a shared text is sent, in a header, the document or the URL, with the corresponding texts. Takes a sender's data, returns the sender. */
import { query } from './clauses.ts';
import { header } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, same, sender } from './sender.ts';

type Form = 'plain' | 'bearer' | 'basic';

export const notSigned =
  'Nothing is signed: anyone who learns the token can send anything. Use HTTPS all the way.';

/** The scheme in upper or lower case (RFC 9110 §11.1), and what follows it. */
const scheme = (value: string, name: string, wanted: string): string =>
  `lower(left(${value}, ${name.length})) = '${name}'\n  AND secure_compare(substr(${value}, ${name.length + 1}), ${wanted})`;

const sqlOf: Readonly<Record<Form, (value: string, s: string) => string>> = {
  plain: (value, s) => `secure_compare(${value}, ${s})`,
  bearer: (value, s) => scheme(value, 'bearer ', s),
  basic: (value, s) =>
    scheme(value, 'basic ', `replace(encode(convert_to(${s}, 'UTF8'), 'base64'), E'\\n', '')`),
};

const valueOf: Readonly<Record<Form, (key: string) => string>> = {
  plain: (key) => key,
  bearer: (key) => `Bearer ${key}`,
  basic: (key) => `Basic ${Buffer.from(key).toString('base64')}`,
};

/** One header that contains the token. */
export function tokenHeader(form: Form, spec: SenderSpec): Sender {
  const name = spec.headers[0] ?? '';
  return sender('A token', {
    signsBody: false,
    expression: (s) => sqlOf[form](header(name), s),
    sign: ({ signingKey }) => ({ headers: { [name]: valueOf[form](signingKey) } }),
    ...(form === 'basic'
      ? {
          secretForm: forms.userPassword,
          makeSecret: (random: (size: number) => Buffer) => same(`headgate:${random(16).toString('hex')}`),
        }
      : {}),
    ...spec,
    notes: [...(spec.notes ?? []), notSigned],
  });
}

const byYou = 'you choose it';
export const chosen = (what = 'any long random text') => ({ what, where: byYou });
/** Whether the token is a text of the receiver's own, so that the sender says nothing of its form. */
export const isOwnToken = ({ theme, secret, evidence }: Sender) =>
  theme === 'A token' && secret.where === byYou && evidence.secret === undefined;
export const basicSecret = chosen('user and password as `user:password`');

interface BodySpec extends Omit<SenderSpec, 'headers'> {
  /** The text in the document, as an expression. */
  readonly value: string;
  /** The document with the token in it. */
  readonly put: (document: Record<string, unknown>, key: string) => unknown;
}

/** A token in the document. */
export function tokenInBody({ value, put, ...spec }: BodySpec): Sender {
  return sender('A token', {
    headers: [],
    signatureHeader: null,
    signsBody: false,
    expression: (s) => `secure_compare(${value}, ${s})`,
    sign: ({ body, signingKey }) => {
      const document = JSON.parse(body.toString()) as Record<string, unknown>;
      return { headers: {}, body: Buffer.from(JSON.stringify(put(document, signingKey))) };
    },
    ...spec,
    notes: [
      ...(spec.notes ?? []),
      'The token is in the body and therefore in the table: anyone who may read the table can read it.',
      notSigned,
    ],
  });
}

const inUrl =
  'The token is in the URL, which proxies and the sender’s own log may keep. Headgate does not log the query.';

/** `?name=token`. */
export function tokenInQuery(name: string, spec: Omit<SenderSpec, 'headers' | 'secret'>): Sender {
  return sender('A token', {
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: chosen(`the text after \`?${name}=\` in the URL`),
    makeSecret: (random) => same(random(24).toString('base64url')),
    expression: (s) => `secure_compare(${query(name)}, ${s})`,
    sign: ({ url, signingKey }) => {
      const full = new URL(url);
      full.searchParams.set(name, signingKey);
      return { headers: {}, url: full.href };
    },
    ...spec,
    notes: [...(spec.notes ?? []), inUrl, notSigned],
  });
}
