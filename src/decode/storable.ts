/**
 * Text that JSONB cannot hold, replaced by U+FFFD, as `String.prototype.toWellFormed` and every decoder of UTF-8 do: `\\u0000`, surrogates without
 * their other half, and bytes that are no UTF-8. For tables with `on_unstorable = 'replace'`. Takes the bytes of a document; returns them, or
 * a changed copy. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { isSurrogate, isSurrogatePair } from '../kit/json-grammar.ts';

/** The document with what can be stored; itself if that is all of it. */
export function storable(body: Buffer): Buffer {
  return withStorableEscapes(isUtf8(body) ? body : Buffer.from(body.toString('utf8')));
}

/** Only the escapes, which are as long as what replaces them. */
export function withStorableEscapes(body: Buffer): Buffer {
  let out = body;
  for (let at = body.indexOf(backslash); at >= 0; at = body.indexOf(backslash, at)) {
    const unit = unitAt(body, at);
    if (unit === null) at += 2;
    else if (isSurrogate(unit) && isSurrogatePair(unit, unitAt(body, at + 6) ?? 0)) at += 12;
    else {
      if (unit === 0 || isSurrogate(unit)) {
        if (out === body) out = Buffer.from(body);
        out.write('\\ufffd', at, 'latin1');
      }
      at += 6;
    }
  }
  return out;
}

const backslash = 0x5c;

/** The code unit of an escape `\\uXXXX`; null: it is none. */
function unitAt(body: Buffer, at: number): number | null {
  if (body[at] !== backslash || body[at + 1] !== 0x75) return null;
  const digits = body.toString('latin1', at + 2, at + 6);
  return /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : null;
}
