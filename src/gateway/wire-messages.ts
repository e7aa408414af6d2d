/**
 * The few messages with which a client of PostgreSQL runs one statement. Takes texts, returns bytes; refuses nothing:
 * texts with a zero byte have been refused before. Pure. Source: PostgreSQL's manual, "Message Formats".
 */
import { int16, int32, message, zeroEnded } from '../kit/postgres-message.ts';

const none = int16(0);

/** `sql`: bytes without the terminating zero. */
export const query = (sql: Buffer): Buffer => message('Q', sql, Buffer.of(0));
/** `name`: of the statement; empty: the unnamed one. */
export const parse = (sql: Buffer, name = ''): Buffer =>
  message('P', zeroEnded(name), sql, Buffer.of(0), none);
/** No error if there is none. */
export const closeStatement = (name: string): Buffer => message('C', Buffer.from('S'), zeroEnded(name));
export const describeStatement = (): Buffer => message('D', Buffer.from('S'), zeroEnded(''));
export const describePortal = (): Buffer => message('D', Buffer.from('P'), zeroEnded(''));
/** `rowsMax` 0: all rows. */
export const execute = (rowsMax = 0): Buffer => message('E', zeroEnded(''), int32(rowsMax));
export const flush = (): Buffer => message('H');
export const sync = (): Buffer => message('S');

/** To the unnamed portal; all values in text format; null is NULL. */
export function bind(values: readonly (string | null)[], statement = ''): Buffer {
  const parts = [zeroEnded(''), zeroEnded(statement), none, int16(values.length)];
  for (const value of values) {
    if (value === null) {
      parts.push(int32(-1));
      continue;
    }
    const bytes = Buffer.from(value, 'utf8');
    parts.push(int32(bytes.length), bytes);
  }
  return message('B', ...parts, none);
}
