/**
 * The checks of a shared key: comparison in constant time, and HMAC (RFC 2104). What makes most requests trusted runs here. Pure.
 *
 * The time of a comparison does not reveal where two texts differ: both sides are copied into buffers of one size, padded with zeros, and compared in
 * full: within a size class neither content nor length can be measured.
 *
 * HMAC takes a key that is the same for every request once and returns functions of the bytes: for a short message, two digests that are each computed in
 * one call cost about half as much as a Hmac object of node:crypto, which is a stream with a native part that has to be garbage-collected; a long message
 * would have to be copied, so it uses a Hmac.
 */
import { createHash, createHmac, createSecretKey, hash, timingSafeEqual } from 'node:crypto';
import { limits } from '../config/limits.ts';
import { EvaluationError } from './errors.ts';
import { type Implementation, type FunctionRow, functionsOf } from './function-table.ts';
import { hashName } from './functions-digests.ts';
import { type Value } from './types.ts';

const fn = functionsOf('checks');

const hmacDoc =
  'The HMAC of the bytes; md5, sha1, sha224, sha256, sha384 or sha512. The key comes first and must not be empty.';

const keyedBefore = { role: 'mac', specialise: preparedHmac, encoded: encodedHmac } as const;

export const checkRows: readonly FunctionRow[] = [
  fn(
    'secure_compare',
    ['text', 'text'],
    'bool',
    secureCompare,
    'Equality in constant time. Two empty texts are not equal.',
    { role: 'compare', specialise: preparedCompare },
  ),
  fn(
    'secure_compare_any',
    ['text', 'text[]'],
    'bool',
    secureCompareAny,
    'Whether the text equals any item, in constant time.',
    { role: 'compareAny' },
  ),
  fn('hmac', ['text', 'bytea', 'text'], 'bytea', hmac, hmacDoc, keyedBefore),
  fn('hmac', ['bytea', 'bytea', 'text'], 'bytea', hmac, hmacDoc, keyedBefore),
  fn(
    'header_values',
    ['text'],
    'text[]',
    // A node of its own reads the request (typing.ts).
    () => null,
    "All values of the header of that name, which is a constant in lower case, in their order; NULL if there is none. For senders that repeat a header: `secure_compare_any(…, header_values('x-signature'))`.",
    { role: 'header' },
  ),
];

interface Scratch {
  readonly size: number;
  readonly left: Buffer;
  readonly right: Buffer;
}

/** Evaluation is synchronous, so one pair per size serves the whole process. Nothing secret remains after a comparison. */
const scratches: readonly Scratch[] = [256, 2048, 16 * 1024].map((size) => ({
  size,
  left: Buffer.alloc(size),
  right: Buffer.alloc(size),
}));

/** Equality of two texts, over their UTF-8 bytes. */
export function sameText(a: string, b: string): boolean {
  // A UTF-16 unit takes at most three bytes of UTF-8; digests and tokens are ASCII and use the smallest pair.
  const longest = Math.max(a.length, b.length) * 3;
  let scratch = scratches[0];
  for (let i = 1; scratch !== undefined && longest > scratch.size; i++) scratch = scratches[i];
  if (scratch === undefined) return sameBytes(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8'));
  const { left, right } = scratch;
  const aLength = left.write(a, 'utf8');
  const bLength = right.write(b, 'utf8');
  const same = timingSafeEqual(left, right);
  left.fill(0, 0, aLength);
  right.fill(0, 0, bLength);
  return same && aLength === bLength;
}

/** A text that is cut off ends at most three bytes before the end of its buffer, before a character that did not fit. */
const cutBytesMax = 3;

/**
 * Equality with one fixed text: it is encoded and padded once, so that not even its length can be measured, only which
 * of the sizes it needs.
 */
export function equalTo(expected: string): (given: string) => boolean {
  const bytes = Buffer.from(expected, 'utf8');
  const scratch = scratches.find(({ size }) => bytes.length + cutBytesMax < size);
  if (scratch === undefined) return (given) => sameBytes(Buffer.from(given, 'utf8'), bytes);
  const padded = Buffer.alloc(scratch.size);
  bytes.copy(padded);
  const { left } = scratch;
  const { length } = bytes;
  return (given) => {
    // A text that is cut off at the buffer's end is longer than the expected one, and unequal because of its length.
    const written = left.write(given, 'utf8');
    const same = timingSafeEqual(left, padded);
    left.fill(0, 0, written);
    return same && written === length;
  };
}

/** Equality of two byte strings; if the lengths differ, it takes the time of comparing `b` with itself. */
export function sameBytes(a: Buffer, b: Buffer): boolean {
  const sameLength = a.length === b.length;
  return timingSafeEqual(sameLength ? a : b, b) && sameLength;
}

/** Never true for two empty texts: an empty secret must not accept an empty header. */
function secureCompare(a: string, b: string): boolean {
  return sameText(a, b) && a !== '';
}

/** Compares with every item; returns false and NULL as `= ANY` does. */
function secureCompareAny(text: string, items: readonly (string | null)[]): boolean | null {
  checkItems(items);
  let found = false;
  let unknown = false;
  for (const item of items) {
    if (item === null) unknown = true;
    else if (secureCompare(text, item)) found = true;
  }
  return found ? true : unknown ? null : false;
}

/** A request must not cause thousands of comparisons with one header. */
export function checkItems(items: readonly unknown[]): void {
  if (items.length > limits.expressionListItemsMax) {
    throw new EvaluationError('54000', `a list of more than ${limits.expressionListItemsMax} items`, false);
  }
}

/** A side that is the same for every request is prepared once. */
function preparedCompare([left, right]: readonly (Value | undefined)[]): Implementation | null {
  const expected = left ?? right;
  if (typeof expected !== 'string') return null;
  const isSame = equalTo(expected);
  const isEmpty = expected === '';
  return (a, b) => isSame((typeof left === 'string' ? b : a) as string) && !isEmpty;
}

/** For longer messages copying is not worthwhile. */
const shortBytesMax = 4 * 1024;
/** The block size of SHA-384 and SHA-512; the other algorithms have 64 bytes. */
const wideBlockBytes = 128;
const blockBytes = 64;

/** The inner block and the message. Evaluation is synchronous, so one buffer serves the whole process. */
const inner = Buffer.alloc(wideBlockBytes + shortBytesMax);

interface KeyedHmac {
  digest(data: Buffer): Buffer;
  encoded(data: Buffer, encoding: 'hex' | 'base64'): string;
}

/** `algorithm`: one of `hashName()`. */
export function keyedHmac(key: Buffer, algorithm: string): KeyedHmac {
  const object = createSecretKey(key);
  const block = algorithm === 'sha384' || algorithm === 'sha512' ? wideBlockBytes : blockBytes;
  const shortKey = key.length > block ? createHash(algorithm).update(key).digest() : key;
  const innerPad = Buffer.alloc(block, 0x36);
  const outer = Buffer.concat([Buffer.alloc(block, 0x5c), createHash(algorithm).digest()]);
  shortKey.forEach((byte, i) => {
    innerPad[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  });
  const short = (data: Buffer, encoding: 'binary' | 'hex' | 'base64'): string => {
    inner.set(innerPad);
    inner.set(data, block);
    // One character per byte; a Buffer would take longer.
    outer.write(hash(algorithm, inner.subarray(0, block + data.length), 'binary'), block, 'latin1');
    return hash(algorithm, outer, encoding);
  };
  const long = (data: Buffer) => createHmac(algorithm, object).update(data);
  return {
    digest: (data) =>
      data.length > shortBytesMax ? long(data).digest() : Buffer.from(short(data, 'binary'), 'latin1'),
    encoded: (data, encoding) =>
      data.length > shortBytesMax ? long(data).digest(encoding) : short(data, encoding),
  };
}

function keyed(key: string | Buffer): Buffer {
  if (key.length === 0) throw new EvaluationError('22023', 'hmac: the key is empty');
  return typeof key === 'string' ? Buffer.from(key, 'utf8') : key;
}

/** For arguments of which none is known before. */
function hmac(key: string | Buffer, data: Buffer, algorithm: string): Buffer {
  return createHmac(hashName(algorithm), keyed(key)).update(data).digest();
}

/** For a key and an algorithm that are the same for every request; null: one of them is not. Throws EvaluationError. */
function knownHmac([key, , algorithm]: readonly (Value | undefined)[]): KeyedHmac | null {
  const hash = typeof algorithm === 'string' ? hashName(algorithm) : null;
  if (typeof key !== 'string' && !Buffer.isBuffer(key)) return null;
  const bytes = keyed(key);
  return hash === null ? null : keyedHmac(bytes, hash);
}

function preparedHmac(known: readonly (Value | undefined)[]): Implementation | null {
  const made = knownHmac(known);
  return made === null ? null : (_, data) => made.digest(data as Buffer);
}

/** node:crypto writes hex and base64 itself, which saves a buffer; base64 of 57 bytes or more has line breaks. */
function encodedHmac(known: readonly (Value | undefined)[], format: string): Implementation | null {
  const [, , algorithm] = known;
  if (typeof algorithm !== 'string' || (format !== 'hex' && format !== 'base64')) return null;
  if (format === 'base64' && hashName(algorithm) === 'sha512') return null;
  const made = knownHmac(known);
  return made === null ? null : (_, data) => made.encoded(data as Buffer, format);
}
