/**
 * The forms that secrets of known senders have. Takes a secret's value, returns the ids of the forms it has: only these
 * are stored, so that creating a table whose check can never be true leads to a warning. Pure.
 */
import { createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { jsonObject } from '../kit/json-values.ts';
import type { SecretForm } from './sender.ts';

const form = (id: string, sentence: string, test: SecretForm['test']): SecretForm => ({ id, sentence, test });

/** As decode(…, 'base64') reads it: blanks are ignored, padding is required. */
function base64Bytes(text: string): Buffer | null {
  const digits = text.replaceAll(/\s/g, '');
  if (digits === '' || digits.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(digits)) return null;
  return Buffer.from(digits, 'base64');
}

/** As an expression reads it that adds the padding. */
const unpaddedBytes = (text: string): Buffer | null =>
  base64Bytes(text + '='.repeat((4 - (text.replaceAll(/\s/g, '').length % 4)) % 4));

/** After its prefix the base64 of a key may lack the padding; without the prefix nearly any word would be one. */
const isPrefixedKey = (text: string, ...prefixes: readonly string[]): boolean => {
  const key = without(text, ...prefixes);
  return (key === text ? base64Bytes(key) : unpaddedBytes(key)) !== null;
};

const without = (text: string, ...prefixes: readonly string[]): string =>
  prefixes.reduce((rest, prefix) => rest.replaceAll(prefix, ''), text);

const hexDigits = (text: string): boolean => text.length % 2 === 0 && /^[0-9a-f]+$/i.test(text);

function isKey(make: () => KeyObject, type: string): boolean {
  try {
    return make().asymmetricKeyType === type;
  } catch {
    return false;
  }
}

const isPem = (text: string): boolean =>
  text.includes('-----BEGIN ') && isKey(() => createPublicKey(text), 'rsa');

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** JSON whose members with these names are texts. */
const jsonOf =
  (...names: readonly string[]) =>
  (text: string): boolean => {
    const value = jsonObject(text);
    return value !== null && names.every((name) => isText(value[name]));
  };

function isJwk(text: string): boolean {
  const value = jsonObject(text);
  if (value === null) return false;
  const { keys = [value] } = value;
  return (
    Array.isArray(keys) && keys.length > 0 && keys.every((key) => isText((key as { kty?: unknown })?.kty))
  );
}

export const forms = {
  whsec: form('whsec', '`whsec_` and base64', (text) => isPrefixedKey(text, 'whsec_')),
  hookSecret: form('v1_whsec', '`v1,whsec_` and base64', (text) => isPrefixedKey(text, 'v1,', 'whsec_')),
  whpk: form(
    'whpk',
    '`whpk_` and the base64 of 32 bytes',
    (text) => base64Bytes(without(text, 'whpk_'))?.length === 32,
  ),
  base64: form('base64', 'base64', (text) => base64Bytes(text) !== null),
  hex: form('hex', 'an even number of hexadecimal digits', hexDigits),
  ed25519: form('ed25519', '64 hexadecimal digits', (text) => text.length === 64 && hexDigits(text)),
  ecKey: form('ec_public_key', 'an elliptic-curve public key in base64', (text) => {
    const key = base64Bytes(text);
    return key !== null && isKey(() => createPublicKey({ key, format: 'der', type: 'spki' }), 'ec');
  }),
  ed25519Base64: form('ed25519_base64', 'the base64 of 32 bytes', (text) => base64Bytes(text)?.length === 32),
  ecPem: form(
    'ec_pem',
    'an elliptic-curve certificate or public key in PEM',
    (text) => text.includes('-----BEGIN ') && isKey(() => createPublicKey(text), 'ec'),
  ),
  digits: form('digits', 'digits', (text) => /^[0-9]{1,20}$/.test(text)),
  pem: form('pem', 'an RSA certificate or public key in PEM', isPem),
  paypal: form('paypal', 'JSON with a `webhook_id` and a `cert` in PEM', (text) => {
    const { webhook_id: id, cert } = jsonObject(text) ?? {};
    return isText(id) && isText(cert) && isPem(cert);
  }),
  adobe: form('adobe', 'JSON with a `client_id` and a `key1` in PEM', (text) => {
    const { client_id: id, key1: key } = jsonObject(text) ?? {};
    return isText(id) && isText(key) && isPem(key);
  }),
  short: form('short', 'shorter than 16 bytes', (text) => Buffer.byteLength(text) < 16),
  jwk: form('jwk', 'a JWK or a set of them', isJwk),
  keyAndSecret: form('key_secret', 'JSON with `key` and `secret`', jsonOf('key', 'secret')),
  keyPair: form('key_pair', 'JSON with `public_key` and `private_key`', jsonOf('public_key', 'private_key')),
  userPassword: form('user_password', '`user:password`', (text) => text.indexOf(':') > 0),
  telegram: form('telegram', '1 to 256 characters out of `A-Z a-z 0-9 _ -`', (text) =>
    /^[\w-]{1,256}$/.test(text),
  ),
} as const satisfies Record<string, SecretForm>;

/** The ids of all forms that this value has. */
export function secretForms(value: string): readonly string[] {
  return Object.values(forms)
    .filter(({ test }) => test(value))
    .map(({ id }) => id);
}
