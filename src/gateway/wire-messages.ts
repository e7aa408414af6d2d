/**
 * The few messages that a client of PostgreSQL sends to run one statement. Takes texts, gives bytes; refuses nothing:
 * a text with a zero byte was refused before. Pure. Source: PostgreSQL's manual, "Message Formats".
 */
import { allocLarge } from '../kit/free-buffer.ts';

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const length = parts.reduce((bytes, part) => bytes + part.length, 4);
  const whole = allocLarge(1 + length);
  whole.write(type, 0, 'latin1');
  let at = whole.writeInt32BE(length, 1);
  for (const part of parts) at += part.copy(whole, at);
  return whole;
}

const text = (value: string): Buffer => Buffer.from(`${value}\0`, 'utf8');
const int16 = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeUInt16BE(value);
  return bytes;
};
const int32 = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value);
  return bytes;
};

/** `sql`: bytes without the zero behind them. */
export const query = (sql: Buffer): Buffer => message('Q', sql, Buffer.of(0));
/** Of the unnamed statement. */
export const parse = (sql: Buffer): Buffer => message('P', text(''), sql, Buffer.of(0), int16(0));
export const describeStatement = (): Buffer => message('D', Buffer.from('S'), text(''));
export const describePortal = (): Buffer => message('D', Buffer.from('P'), text(''));
export const execute = (): Buffer => message('E', text(''), int32(0));
export const sync = (): Buffer => message('S');

/** All values in text format; null is NULL. */
export function bind(values: readonly (string | null)[]): Buffer {
  const parts = [text(''), text(''), int16(0), int16(values.length)];
  for (const value of values) {
    if (value === null) {
      parts.push(int32(-1));
      continue;
    }
    const bytes = Buffer.from(value, 'utf8');
    parts.push(int32(bytes.length), bytes);
  }
  return message('B', ...parts, int16(0));
}
