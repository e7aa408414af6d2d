/**
 * The wizard's form for an HMAC that no known sender uses: which header has the signature, how it is written, and what is signed. Takes what
 * was filled in, returns the expression of VALIDATE; and reads a request that was pasted. Pure.
 */
import { literal } from './quote.ts';

export type SignedPart =
  | { readonly kind: 'body' }
  | { readonly kind: 'header'; readonly name: string }
  | { readonly kind: 'text'; readonly text: string };

export interface HmacForm {
  /** Names of headers are in lower case. */
  readonly header: string;
  readonly algorithm: Algorithm;
  readonly encoding: SignatureEncoding;
  /** In front of the signature, such as `sha256=`; '': nothing. */
  readonly prefix: string;
  readonly signed: readonly SignedPart[];
  /** The header with the time, in seconds since 1970, and how old it may be; '': the time is not checked. */
  readonly timeHeader: string;
  readonly ageS: number;
}

export interface TriedRequest {
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
}

export const algorithms = ['sha256', 'sha512', 'sha384', 'sha1'] as const;
export type Algorithm = (typeof algorithms)[number];
export const encodings = ['hex', 'base64'] as const;
export type SignatureEncoding = (typeof encodings)[number];

const partsMax = 8;
const textMax = 200;

export const emptyForm: HmacForm = {
  header: 'x-signature',
  algorithm: 'sha256',
  encoding: 'hex',
  prefix: '',
  signed: [{ kind: 'body' }],
  timeHeader: '',
  ageS: 300,
};

const isName = (name: unknown): name is string =>
  typeof name === 'string' && /^[a-z0-9!#$%&'*+.^_`|~-]{1,200}$/.test(name);
const isShort = (text: unknown): text is string =>
  typeof text === 'string' && text.length <= textMax && !text.includes('\0');

/** Why the form is no check yet; null: it is one. */
export function problemOf(form: HmacForm): string | null {
  if (!isName(form.header)) return 'Name the header that has the signature.';
  if (!form.signed.some(({ kind }) => kind === 'body'))
    return 'The body must be signed, or anybody who has seen one request can send another.';
  if (form.signed.some((part) => part.kind === 'header' && !isName(part.name)))
    return 'A signed header has no name.';
  if (form.timeHeader !== '' && !isName(form.timeHeader)) return 'The header with the time has no name.';
  const isTimeSigned = form.signed.some((part) => part.kind === 'header' && part.name === form.timeHeader);
  return form.timeHeader === '' || isTimeSigned
    ? null
    : 'The time is not signed: anybody could send an old request with a new time.';
}

/** Of a message. */
export function isHmacForm(given: unknown): given is HmacForm {
  if (typeof given !== 'object' || given === null) return false;
  const form = given as Partial<Record<keyof HmacForm, unknown>>;
  const { header, algorithm, encoding, prefix, signed, timeHeader, ageS } = form;
  return (
    isName(header) &&
    algorithms.some((it) => it === algorithm) &&
    encodings.some((it) => it === encoding) &&
    isShort(prefix) &&
    Array.isArray(signed) &&
    signed.length <= partsMax &&
    (signed as unknown[]).every(isPart) &&
    (timeHeader === '' || isName(timeHeader)) &&
    typeof ageS === 'number' &&
    Number.isSafeInteger(ageS) &&
    ageS > 0
  );
}

function isPart(given: unknown): given is SignedPart {
  const { kind, name, text } = (given ?? {}) as { kind?: unknown; name?: unknown; text?: unknown };
  return kind === 'body' || (kind === 'header' && isName(name)) || (kind === 'text' && isShort(text));
}

/** `secret`: its name as an SQL identifier. */
export function expressionOf(form: HmacForm, secret: string): string {
  const pieces: string[] = [];
  let texts: string[] = [];
  const flush = (): void => {
    if (texts.length > 0) pieces.push(`convert_to(${texts.join(' || ')}, 'UTF8')`);
    texts = [];
  };
  for (const part of form.signed) {
    if (part.kind === 'header') texts.push(`(headers->>${literal(part.name)})`);
    else if (part.kind === 'text') texts.push(literal(part.text));
    else {
      flush();
      pieces.push('payload');
    }
  }
  flush();
  const encoded = `encode(hmac(${secret}, ${pieces.join(' || ')}, '${form.algorithm}'), '${form.encoding}')`;
  // PostgreSQL breaks base64 after 76 characters.
  const breaks = form.algorithm === 'sha512' && form.encoding === 'base64';
  const signature = breaks ? `replace(${encoded}, E'\\n', '')` : encoded;
  const wanted = form.prefix === '' ? signature : `${literal(form.prefix)} || ${signature}`;
  const compared = `secure_compare(headers->>${literal(form.header)},\n    ${wanted})`;
  return form.timeHeader === ''
    ? compared
    : `abs(extract(epoch from now()) - (headers->>${literal(form.timeHeader)})::bigint) <= ${form.ageS}\n  AND ${compared}`;
}

/** A curl command; or headers, an empty line and the body, perhaps after the line of the request. */
export function readRequest(text: string): {
  readonly headers: TriedRequest['headers'];
  readonly body: string;
} {
  return /^\s*curl\s/.test(text) ? readCurl(text) : readPlain(text);
}

function readPlain(text: string): { headers: [string, string][]; body: string } {
  const [head = '', ...rest] = text.replaceAll('\r\n', '\n').replace(/^\s+/, '').split('\n\n');
  return { headers: head.split('\n').flatMap(headerOf), body: rest.join('\n\n') };
}

function headerOf(line: string): [string, string][] {
  const [, name, value] = /^([^\s:]+):\s*(.*?)\s*$/.exec(line) ?? [];
  return name === undefined || value === undefined ? [] : [[name.toLowerCase(), value]];
}

/** Words in the quotes of a shell. */
function readCurl(text: string): { headers: [string, string][]; body: string } {
  const words = [
    ...text.replaceAll(/\\\r?\n/g, ' ').matchAll(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/gs),
  ].map(([word]) =>
    word.replaceAll(/'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/gs, (_, plain, quoted, escaped) =>
      String(plain ?? (quoted as string | undefined)?.replaceAll(/\\(["\\$`])/g, '$1') ?? escaped),
    ),
  );
  const after = (...names: readonly string[]): string[] =>
    words.flatMap((word, i) => (names.includes(word) ? [words[i + 1] ?? ''] : []));
  return {
    headers: after('-H', '--header').flatMap(headerOf),
    body: after('-d', '--data', '--data-raw', '--data-binary', '--data-ascii').join('&'),
  };
}
