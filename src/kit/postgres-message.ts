/**
 * A message of PostgreSQL's protocol, as bytes: its letter, its length, its fields. Pure. Source: PostgreSQL's manual, "Message
 * Formats". Each room decides what its messages hold.
 */
import { allocLarge } from './free-buffer.ts';

export function message(type: string, ...fields: readonly Buffer[]): Buffer {
  const length = fields.reduce((bytes, field) => bytes + field.length, 4);
  const whole = allocLarge(1 + length);
  whole[0] = type.charCodeAt(0);
  let at = whole.writeInt32BE(length, 1);
  for (const field of fields) at += field.copy(whole, at);
  return whole;
}

/** A text as the protocol writes it: terminated by a NUL, which no text can contain. */
export function zeroEnded(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}

export function int16(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

/** Signed, as lengths are, or unsigned, as oids are. */
export function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value | 0);
  return bytes;
}
