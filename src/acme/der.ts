/** The part of DER (X.690) that certificates and certificate requests need. Pure. */

/** Tag, length and content. */
export function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content]);
}

export const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
export const set = (...parts: readonly Buffer[]): Buffer => der(0x31, ...parts);
export const octets = (content: Buffer): Buffer => der(0x04, content);
/** For whole bytes. */
export const bits = (content: Buffer): Buffer => der(0x03, Buffer.of(0), content);
export const integer = (value: number): Buffer => der(0x02, Buffer.of(value));
export const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text, 'utf8'));
/** `[number] EXPLICIT`, or a constructed implicit one. */
export const tagged = (number: number, ...parts: readonly Buffer[]): Buffer => der(0xa0 | number, ...parts);

/** For dates up to 2049, as in RFC 5280. */
export function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '');
  return der(0x17, Buffer.from(digits.slice(2), 'latin1'));
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...others] = dotted.split('.').map(Number);
  return der(0x06, Buffer.from([first * 40 + second, ...others.flatMap(base128)]));
}

function base128(number: number): number[] {
  const bytes = [number & 0x7f];
  for (let left = number >>> 7; left > 0; left >>>= 7) bytes.unshift((left & 0x7f) | 0x80);
  return bytes;
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  const bytes: number[] = [];
  for (let left = length; left > 0; left >>>= 8) bytes.unshift(left & 0xff);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}
