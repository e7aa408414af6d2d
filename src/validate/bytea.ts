/** Bytes and their text forms: encode, decode, and bytea's own input and output, as in PostgreSQL. */
import { isUtf8 } from 'node:buffer';
import { hexDigit, isJsonSpace } from '../kit/json-grammar.ts';
import { EvaluationError, unsupported } from './errors.ts';

export type ByteFormat = 'hex' | 'base64' | 'escape';

export function byteFormat(name: string): ByteFormat {
  const format = name.toLowerCase();
  if (format === 'hex' || format === 'base64' || format === 'escape') return format;
  throw new EvaluationError('22023', `unrecognized encoding: "${name}"`);
}

export function encodeBytes(bytes: Buffer, format: ByteFormat): string {
  if (format === 'hex') return bytes.toString('hex');
  return format === 'base64' ? encodeBase64(bytes) : encodeEscape(bytes);
}

export function decodeBytes(text: string, format: ByteFormat): Buffer {
  if (format === 'hex') return decodeHex(text);
  return format === 'base64' ? decodeBase64(text) : decodeEscape(text);
}

/**
 * A newline follows every 76 characters that come from whole three-byte groups, including the last such line; it never
 * follows a padded group (pg_base64_encode).
 */
function encodeBase64(bytes: Buffer): string {
  const plain = bytes.toString('base64');
  const whole = Math.floor(bytes.length / 3) * 4;
  if (whole < 76) return plain;
  let out = '';
  let at = 0;
  for (; at + 76 <= whole; at += 76) out += `${plain.slice(at, at + 76)}\n`;
  return out + plain.slice(at);
}

function encodeEscape(bytes: Buffer): string {
  let out = '';
  for (const byte of bytes) {
    if (byte === 0 || byte >= 0x80) out += `\\${byte.toString(8).padStart(3, '0')}`;
    else out += byte === 0x5c ? '\\\\' : String.fromCharCode(byte);
  }
  return out;
}

/** White space is skipped between pairs, not inside a pair. */
function decodeHex(text: string): Buffer {
  const out = Buffer.allocUnsafe(text.length >> 1);
  let length = 0;
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at++);
    if (isJsonSpace(code)) continue;
    const high = hexDigit(code);
    if (high < 0) throw new EvaluationError('22023', 'invalid hexadecimal digit');
    if (at >= text.length)
      throw new EvaluationError('22023', 'invalid hexadecimal data: odd number of digits');
    const low = hexDigit(text.charCodeAt(at++));
    if (low < 0) throw new EvaluationError('22023', 'invalid hexadecimal digit');
    out[length++] = high * 16 + low;
  }
  return out.subarray(0, length);
}

function base64Digit(code: number): number {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  return code === 43 ? 62 : code === 47 ? 63 : -1;
}

/** Follows pg_base64_decode step by step: padding is required, and one padded group shortens all that follow. */
function decodeBase64(text: string): Buffer {
  const out = Buffer.allocUnsafe(Math.ceil(text.length / 4) * 3);
  let length = 0;
  let bits = 0;
  let position = 0;
  let padding = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isJsonSpace(code)) continue;
    let digit = 0;
    if (code === 0x3d) {
      if (padding === 0) {
        if (position < 2) throw new EvaluationError('22023', 'unexpected "=" while decoding base64 sequence');
        padding = position === 2 ? 1 : 2;
      }
    } else {
      digit = base64Digit(code);
      if (digit < 0)
        throw new EvaluationError('22023', 'invalid symbol found while decoding base64 sequence');
    }
    bits = (bits << 6) + digit;
    if (++position < 4) continue;
    out[length++] = (bits >> 16) & 0xff;
    if (padding !== 1) out[length++] = (bits >> 8) & 0xff;
    if (padding === 0) out[length++] = bits & 0xff;
    bits = 0;
    position = 0;
  }
  if (position !== 0) throw new EvaluationError('22023', 'invalid base64 end sequence');
  return out.subarray(0, length);
}

function decodeEscape(text: string): Buffer {
  return unescapeBytes(text, '22023');
}

function unescapeBytes(text: string, sqlstate: string): Buffer {
  const source = Buffer.from(text, 'utf8');
  const out = Buffer.allocUnsafe(source.length);
  let length = 0;
  for (let at = 0; at < source.length;) {
    const byte = source[at++] ?? 0;
    if (byte !== 0x5c) {
      out[length++] = byte;
      continue;
    }
    const next = source[at] ?? 0;
    if (next === 0x5c) {
      out[length++] = 0x5c;
      at += 1;
      continue;
    }
    const octal = source.toString('latin1', at, at + 3);
    if (!/^[0-3][0-7][0-7]$/.test(octal))
      throw new EvaluationError(sqlstate, 'invalid input syntax for type bytea');
    out[length++] = Number.parseInt(octal, 8);
    at += 3;
  }
  return out.subarray(0, length);
}

/** `text::bytea` and bytea literals: `\x…`, otherwise the escape form. */
export function parseBytea(text: string): Buffer {
  return text.startsWith('\\x') ? decodeHex(text.slice(2)) : unescapeBytes(text, '22P02');
}

export function printBytea(bytes: Buffer): string {
  return `\\x${bytes.toString('hex')}`;
}

/** PostgreSQL compares encoding names without regard to case and punctuation. */
function isUtf8Name(encoding: string): boolean {
  const name = encoding.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  return name === 'utf8' || name === 'unicode';
}

function checkEncoding(encoding: string): void {
  if (!isUtf8Name(encoding)) throw unsupported(`the encoding ${encoding.slice(0, 40)}; UTF8 is known here`);
}

export function bytesToText(bytes: Buffer, encoding: string): string {
  checkEncoding(encoding);
  if (!isUtf8(bytes) || bytes.includes(0)) {
    throw new EvaluationError('22021', 'invalid byte sequence for encoding "UTF8"');
  }
  return bytes.toString('utf8');
}

export function textToBytes(text: string, encoding: string): Buffer {
  checkEncoding(encoding);
  return Buffer.from(text, 'utf8');
}

/** PostgreSQL's order of bytea: byte by byte, then length. */
export function compareBytes(a: Buffer, b: Buffer): number {
  return Buffer.compare(a, b);
}
