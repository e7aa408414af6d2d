/** Pieces of VALIDATE expressions that several senders share. Texts only. */

const lower = (name: string) => name.toLowerCase();

/** `headers->>'x-name'`, in parentheses as an operand of `||`. */
export const header = (name: string): string => `headers->>'${lower(name)}'`;
export const headerOperand = (name: string): string => `(${header(name)})`;

export const utf8 = (text: string): string => `convert_to(${text}, 'UTF8')`;
export const body = `convert_from(payload, 'UTF8')::jsonb`;
export const field = (path: string): string => `${body} #>> '{${path}}'`;

export function hmac(key: string, bytes: string, algorithm: string, encoding: 'hex' | 'base64'): string {
  return `encode(hmac(${key}, ${bytes}, '${algorithm}'), '${encoding}')`;
}

/** base64url: no padding, no plus and no slash. */
export const base64url = (base64: string): string => `translate(${base64}, '+/=', '-_')`;

/** Whether a time in seconds since 1970 is within the tolerance, in either direction. */
export function fresh(time: string, toleranceS: number): string {
  return `abs(extract(epoch from now()) - (${time})::bigint) <= ${toleranceS}`;
}

export function freshMs(time: string, toleranceS: number): string {
  return `abs(extract(epoch from now()) * 1000 - (${time})::bigint) <= ${toleranceS * 1000}`;
}

export function freshIso(time: string, toleranceS: number): string {
  return `abs(extract(epoch from now()) - extract(epoch from (${time})::timestamptz)) <= ${toleranceS}`;
}

/** The elements of a header that is a list, and one of them by its name, at any position. */
export const elements = (name: string, separator: string): string =>
  `string_to_array(replace(${header(name)}, ' ', ''), '${separator}')`;
export const element = (name: string, key: string, separator: string): string =>
  `split_part(split_part('${separator}' || replace(${header(name)}, ' ', ''), '${separator}${key}=', 2), '${separator}', 1)`;

/** Base64 that some write without its padding, as decode() wants it. */
export const padded = (base64: string): string =>
  `${base64}\n    || CASE length(${base64}) % 4 WHEN 2 THEN '==' WHEN 3 THEN '=' ELSE '' END`;
