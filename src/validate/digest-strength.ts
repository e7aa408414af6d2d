/**
 * How much of a digest a value still contains. Takes typed nodes; returns a lower bound in characters, or in bytes if the value is of type bytea. Of a
 * digest, functions that select or drop characters may leave too little, which can be guessed, and of what is joined to a digest nothing but what the
 * sender chose. And whether a digest is one over a key that is a literal. Pure.
 */
import { constantOf, isKeyConstant } from './node.ts';
import type { Node, NodeOf } from './node.ts';

const digestBytes: Readonly<Record<string, number>> = {
  md5: 16,
  sha1: 20,
  sha224: 28,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};

/** Both cases of the digits that every encoding of a digest contains. */
const alphabets = ['0123456789abcdef', '0123456789ABCDEF'];

/** How many of the digits must remain distinct. */
const digitsMin = 8;

/** A digest in a value: how many characters, or bytes, of it, with how many before and behind; null: as many as a sender chooses. */
interface CharSpan {
  readonly before: number | null;
  readonly length: number;
  readonly after: number | null;
}

/** How many characters, or bytes, of a digest are certainly in a value; 0: possibly none, or what a sender chose. */
export function keptOf(node: Node): number {
  return spanOf(node)?.length ?? 0;
}

function spanOf(node: Node): CharSpan | null {
  if (node.kind !== 'call') return null;
  const { row, args } = node;
  const [first, second] = args;
  if (row.role === 'mac') return whole(bytesOf(args[2]));
  if (row.role === 'hash') {
    const bytes = row.name === 'digest' ? bytesOf(second) : (digestBytes[row.name] ?? 0);
    return whole(row.result === 'text' ? bytes * 2 : bytes);
  }
  if (row.name === '||' && first !== undefined && second !== undefined) return joined(first, second);
  const span = first === undefined ? null : spanOf(first);
  if (span === null) return null;
  switch (row.name) {
    case 'encode':
      return isWhole(span) ? whole(constantOf(second) === 'hex' ? span.length * 2 : span.length) : null;
    case 'decode':
      return isWhole(span) ? whole(Math.floor(span.length / 2)) : null;
    case 'convert_to':
    case 'convert_from':
    case 'lower':
    case 'upper':
      return span;
    case 'replace':
    case 'translate':
    case 'btrim':
    case 'ltrim':
    case 'rtrim':
      return thinned(node, span);
    case 'left':
      return cut(span, 0, numberOf(second));
    case 'right': {
      const turned = cut({ ...span, before: span.after, after: span.before }, 0, numberOf(second));
      return turned && { ...turned, before: turned.after, after: turned.before };
    }
    case 'substr':
    case 'substring':
      return args.length === 3 ? cut(span, numberOf(second) - 1, numberOf(args[2])) : null;
    default:
      return null;
  }
}

const whole = (length: number): CharSpan => ({ before: 0, length, after: 0 });
const isWhole = ({ before, after }: CharSpan): boolean => before === 0 && after === 0;

function joined(left: Node, right: Node): CharSpan | null {
  const span = spanOf(left);
  if (span !== null) return { ...span, after: sum(span.after, lengthOf(right)) };
  const other = spanOf(right);
  return other && { ...other, before: sum(lengthOf(left), other.before) };
}

const sum = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a + b);

function lengthOf(node: Node): number | null {
  const value = constantOf(node);
  return typeof value === 'string' || Buffer.isBuffer(value) ? value.length : null;
}

/** Without some characters: at least half of the digest, if enough of its digits remain distinct. */
function thinned(node: NodeOf<'call'>, { before, length, after }: CharSpan): CharSpan | null {
  if (!alphabets.every((digits) => distinct(node, digits) >= digitsMin)) return null;
  // What surrounds the digest has lost characters, too.
  return {
    before: before === 0 ? 0 : null,
    length: Math.floor(length / 2),
    after: after === 0 ? 0 : null,
  };
}

/** `count` characters from `start`, counted from 0. */
function cut({ before, length, after }: CharSpan, start: number, count: number): CharSpan | null {
  if (before === null) return null;
  const from = Math.max(start, before);
  const left = Math.min(start + count, before + length) - from;
  if (!(left > 0)) return null;
  const end = after === null ? null : Math.min(start + count, before + length + after);
  return { before: from - Math.max(start, 0), length: left, after: end === null ? null : end - from - left };
}

function numberOf(node: Node | undefined): number {
  const value = constantOf(node);
  return typeof value === 'number' ? value : Number.NaN;
}

/** An algorithm that is not known yet may be the shortest. */
function bytesOf(algorithm: Node | undefined): number {
  const name = constantOf(algorithm);
  return (typeof name === 'string' ? digestBytes[name.toLowerCase()] : undefined) ?? 16;
}

/** How many different values that are not empty the digits become. */
function distinct({ row, args }: NodeOf<'call'>, digits: string): number {
  const rest = args.slice(1).map((arg) => (arg.kind === 'constant' ? arg.value : null));
  const images = Array.from(digits, (digit) => row.implementation(digit, ...rest));
  return new Set(images.filter((image) => image !== '' && image !== null)).size;
}

/** The minimum length, in characters, of a constant that counts as a key in a plain digest. */
const keyCharsMin = 8;

/**
 * HubSpot's scheme with a raw key: a digest, perhaps encoded, over a literal key and what the sender sent. Returns that key; null: the value is no such
 * digest.
 */
export function keyOfDigest(node: Node): Node | null {
  if (node.kind !== 'call' || node.row.carries === null || node.row.carries === 'any') return null;
  const [first, ...rest] = node.args;
  if (first === undefined || !rest.every(({ kind }) => kind === 'constant')) return null;
  return node.row.role === 'hash' ? keyOfDigested(first) : keyOfDigest(first);
}

function keyOfDigested(data: Node): Node | null {
  const first = leading(data);
  if (first === null || !data.sender || !isKeyConstant(first)) return null;
  const { value } = first as NodeOf<'constant'>;
  return (value as string | Buffer).length < keyCharsMin ? null : first;
}

/** The constant at the very beginning of a concatenation, looking through conversions. */
function leading(node: Node): Node | null {
  if (node.kind === 'constant') return node;
  if (node.kind !== 'call') return null;
  const [first] = node.args;
  const passes = node.row.name === '||' || node.row.name === 'convert_to';
  return passes && first !== undefined ? leading(first) : null;
}
