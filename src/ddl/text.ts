/**
 * The client's bytes as text, and back. Takes latin1 views of bytes (one char is one byte) and returns JavaScript
 * strings; refuses (0A000) what it cannot decode exactly. Pure.
 */
import { isUtf8 } from 'node:buffer';

/** Encodings in which the second byte of a character may look like ASCII, such as a backslash. */
const shiftingEncodings = new Set(['SJIS', 'SHIFT_JIS_2004', 'BIG5', 'GBK', 'UHC', 'GB18030', 'JOHAB']);
const high = /[\x80-\xff]/;

/** The same text with the same length, in which nothing looks like ASCII that is not. */
export function lexable(text: string, encoding: string): string {
  if (!shiftingEncodings.has(encoding) || !high.test(text)) return text;
  // In the Japanese encodings, A0 to DF are characters of one byte.
  const pair = encoding.startsWith('S') ? /[\x80-\x9f\xe0-\xff][^]/g : /[\x80-\xff][^]/g;
  return text.replace(pair, '\xff\xff');
}

/** A text that cannot be decoded exactly; the message is for the client. */
export class Undecodable extends Error {
  readonly sqlstate: string;

  constructor(sqlstate: string, message: string) {
    super(message);
    this.sqlstate = sqlstate;
  }
}

/** Throws `Undecodable`. */
export function decodeText(bytes: string, encoding: string): string {
  if (!high.test(bytes)) return bytes;
  if (encoding !== 'UTF8') {
    throw new Undecodable(
      '0A000',
      `with client_encoding ${encoding} this can be written in ASCII only; SET client_encoding TO 'UTF8' first`,
    );
  }
  const buffer = Buffer.from(bytes, 'latin1');
  if (!isUtf8(buffer)) throw new Undecodable('22021', 'invalid byte sequence for encoding "UTF8"');
  return buffer.toString('utf8');
}

/** For an error message: never fails. */
export function decodeLoosely(bytes: string, encoding: string): string {
  return encoding === 'UTF8' ? Buffer.from(bytes, 'latin1').toString('utf8') : bytes;
}

/** Headgate's own text as bytes for the engine. It is ASCII whenever client_encoding is not UTF8. */
export function encodeText(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** `text` as one literal that means the same whatever standard_conforming_strings is. Takes and returns bytes. */
export function dollarQuote(text: string): string {
  // In one pass: a text may contain a hundred thousand such tags. A tag that the text only begins would overlap its own end.
  const taken = new Set(Array.from(text.matchAll(/\$hg([0-9]*)/g), ([, number]) => number));
  let number = '';
  for (let n = 1; taken.has(number); n++) number = String(n);
  const tag = `$hg${number}$`;
  return tag + text + tag;
}
