/**
 * Comparison whose time does not reveal where two texts differ. Pure. Both sides are copied into buffers of one size, padded with zeros, and compared in
 * full: within a size class neither content nor length can be measured.
 */
import { timingSafeEqual } from 'node:crypto';
import { EvaluationError } from './errors.ts';
import { limits } from '../config/limits.ts';

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
export function secureCompare(a: string, b: string): boolean {
  return sameText(a, b) && a !== '';
}

/** Compares with every item; returns false and NULL as `= ANY` does. */
export function secureCompareAny(text: string, items: readonly (string | null)[]): boolean | null {
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
