/**
 * The middle layer of the SQL door: the few messages of the PostgreSQL protocol (3.0 and 3.2) that Headgate looks at or
 * creates itself, but for those before a session begins (startup.ts, authenticate.ts). Pure functions over bytes. Text that came from the wire is a latin1 string: one char is one byte, so
 * that offsets are byte offsets and bytes that are not valid text are preserved.
 */
import { message as bytesOf } from '../kit/postgres-message.ts';

const code = (letter: string): number => letter.charCodeAt(0);

/** Types of the messages that clients send. */
export const fromClient = {
  bind: code('B'),
  close: code('C'),
  copyDone: code('c'),
  copyFail: code('f'),
  describe: code('D'),
  execute: code('E'),
  functionCall: code('F'),
  parse: code('P'),
  password: code('p'),
  query: code('Q'),
  sync: code('S'),
  terminate: code('X'),
} as const;

/** Types of the messages that the engine sends. */
export const fromEngine = {
  authentication: code('R'),
  backendKeyData: code('K'),
  bindComplete: code('2'),
  closeComplete: code('3'),
  commandComplete: code('C'),
  copyBoth: code('W'),
  copyIn: code('G'),
  copyOut: code('H'),
  dataRow: code('D'),
  emptyQuery: code('I'),
  error: code('E'),
  noData: code('n'),
  notice: code('N'),
  parameterStatus: code('S'),
  parseComplete: code('1'),
  portalSuspended: code('s'),
  readyForQuery: code('Z'),
  rowDescription: code('T'),
} as const;

export function message(type: string, body: string | Buffer): Buffer {
  return bytesOf(type, typeof body === 'string' ? Buffer.from(body, 'latin1') : body);
}

/** The statement text of a Query's body; null if it is not one zero-terminated string. */
export function readQuery(body: Buffer): string | null {
  const last = body.length - 1;
  return last >= 0 && body.indexOf(0) === last ? body.toString('latin1', 0, last) : null;
}

export function writeQuery(sql: string): Buffer {
  return message('Q', `${sql}\0`);
}

export interface ParseMessage {
  readonly name: string;
  readonly sql: string;
  /** The parameter types, as they came. */
  readonly types: string;
}

export function readParse(body: Buffer): ParseMessage | null {
  const nameEnd = body.indexOf(0);
  const sqlEnd = nameEnd < 0 ? -1 : body.indexOf(0, nameEnd + 1);
  if (sqlEnd < 0) return null;
  return {
    name: body.toString('latin1', 0, nameEnd),
    sql: body.toString('latin1', nameEnd + 1, sqlEnd),
    types: body.toString('latin1', sqlEnd + 1),
  };
}

export function writeParse(parse: ParseMessage): Buffer {
  return message('P', `${parse.name}\0${parse.sql}\0${parse.types}`);
}

/** The first `count` zero-terminated strings of a body, of which perhaps only the beginning is present. */
export function readStrings(body: Buffer, count: number): string[] | null {
  const strings: string[] = [];
  let at = 0;
  while (strings.length < count) {
    const end = body.indexOf(0, at);
    if (end < 0) return null;
    strings.push(body.toString('latin1', at, end));
    at = end + 1;
  }
  return strings;
}

/** The values of a DataRow, as texts; null: NULL. */
export function readDataRow(body: Buffer): (string | null)[] {
  const values: (string | null)[] = [];
  let at = 2;
  for (let left = body.readInt16BE(0); left > 0; left--) {
    const length = body.readInt32BE(at);
    at += 4;
    values.push(length < 0 ? null : body.toString('latin1', at, at + length));
    at += Math.max(0, length);
  }
  return values;
}

export function writeCommandComplete(tag: string): Buffer {
  return message('C', `${tag}\0`);
}

/** The fields of an ErrorResponse or NoticeResponse, by their one-letter names, in the order received. */
export type ErrorFields = Map<string, string>;

export function readErrorFields(body: Buffer): ErrorFields {
  const fields: ErrorFields = new Map();
  let at = 0;
  while (at < body.length && body[at] !== 0) {
    const end = body.indexOf(0, at + 1);
    if (end < 0) break;
    fields.set(String.fromCharCode(body[at]!), body.toString('latin1', at + 1, end));
    at = end + 1;
  }
  return fields;
}

export function writeErrorFields(type: 'E' | 'N', fields: ErrorFields): Buffer {
  let body = '';
  for (const [letter, value] of fields) body += `${letter}${value.replaceAll('\0', '')}\0`;
  return message(type, `${body}\0`);
}

export interface FatalReason {
  readonly sqlstate: string;
  readonly message: string;
  readonly hint?: string;
}

/** The last message on a connection that the door itself ends. */
export function writeFatal(reason: FatalReason): Buffer {
  const utf8 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');
  const fields: ErrorFields = new Map([
    ['S', 'FATAL'],
    ['V', 'FATAL'],
    ['C', reason.sqlstate],
    ['M', utf8(reason.message)],
  ]);
  if (reason.hint !== undefined) fields.set('H', utf8(reason.hint));
  return writeErrorFields('E', fields);
}

export function writeTerminate(): Buffer {
  return message('X', '');
}
