/** How a shared text is sent in one header, with the corresponding texts. Takes a sender's data, returns the sender. */
import { header } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, same, sender } from './sender.ts';

type Form = 'plain' | 'bearer' | 'basic';

export const notSigned =
  'Nothing is signed: anyone who learns the token can send anything. Use HTTPS all the way.';

const sqlOf: Readonly<Record<Form, (s: string) => string>> = {
  plain: (s) => s,
  bearer: (s) => `'Bearer ' || ${s}`,
  basic: (s) => `'Basic ' || replace(encode(convert_to(${s}, 'UTF8'), 'base64'), E'\\n', '')`,
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
    expression: (s) => `secure_compare(${header(name)}, ${sqlOf[form](s)})`,
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

export const chosen = (what = 'any long random text') => ({ what, where: 'you choose it' });
export const basicSecret = chosen('user and password as `user:password`');
