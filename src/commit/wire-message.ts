/**
 * Messages of a PostgreSQL client; pure: what the commit stage sends. Large documents go into a message without a
 * copy, so a message is a list of buffers to be written one after another.
 */
import { int16, int32, message, zeroEnded } from '../kit/postgres-message.ts';
import type { Documents } from '../types/rows.ts';

/** Some rows of one request. */
export interface RowRange {
  readonly documents: Documents;
  /** First row, and the one after the last. */
  readonly from: number;
  readonly to: number;
  /** Rows whose entry is 1 are left out; null: none is. */
  readonly without: Uint8Array | null;
}

export interface WireParameter {
  /** 0: text, 1: binary. */
  readonly format: 0 | 1;
  /** null: NULL. */
  readonly value: Buffer | readonly RowRange[] | null;
}

export function textOf(value: string): WireParameter {
  return { format: 0, value: Buffer.from(value) };
}

/** A Query message. */
export function queryMessage(sql: string): Buffer {
  return message('Q', zeroEnded(sql));
}

/** A Parse message; `types` are the pg_type.oid of the parameters. */
export function parseMessage(name: string, sql: string, types: readonly number[]): Buffer {
  return message('P', zeroEnded(name), zeroEnded(sql), int16(types.length), ...types.map(int32));
}

/** Forgets a prepared statement; it is no error if there is none. */
export function closeMessage(name: string): Buffer {
  return message('C', Buffer.from('S'), zeroEnded(name));
}

export const syncMessage = message('S');
/** Makes the engine send its answers so far. */
export const flushMessage = message('H');

/** Binds the unnamed portal to a prepared statement and executes it. */
export function executeMessages(statement: string, parameters: readonly WireParameter[]): Buffer[] {
  const name = zeroEnded(statement);
  const sizes = parameters.map(({ value }) => sizeOfValue(value));
  const fixed = 4 + 1 + name.length + 2 + 2 * sizes.length + 2 + 4 * sizes.length + 2;
  const sum = (of: keyof Size) => sizes.reduce((bytes, size) => bytes + size[of], 0);
  const out = new Pieces(1 + fixed + sum('merged') + executeAll.length);
  out.byte(0x42);
  out.int32(fixed + sum('bytes'));
  out.byte(0);
  out.copy(name);
  out.int16(parameters.length);
  for (const { format } of parameters) out.int16(format);
  out.int16(parameters.length);
  parameters.forEach(({ value }, i) => {
    out.int32(value === null ? -1 : (sizes[i]?.bytes ?? 0));
    if (value === null) return;
    if (Buffer.isBuffer(value)) out.copy(value);
    else writeArray(out, value);
  });
  out.int16(0);
  out.copy(executeAll);
  return out.end();
}

/** Execute of the unnamed portal, for all of its rows. */
export const executeAll = message('E', Buffer.from([0, 0, 0, 0, 0]));

/** The documents of some requests' rows as one JSON array: `[doc,doc,…]`. */
function writeArray(out: Pieces, parts: readonly RowRange[]): void {
  let separator = 0x5b;
  for (const { documents, from, to, without } of parts) {
    const { bytes, spans } = documents;
    for (let i = from; i < to; i++) {
      if (without !== null && without[i] === 1) continue;
      out.byte(separator);
      separator = 0x2c;
      out.document(bytes, spans?.[2 * i] ?? 0, spans?.[2 * i + 1] ?? bytes.length);
    }
  }
  if (separator === 0x5b) out.byte(separator);
  out.byte(0x5d);
}

interface Size {
  readonly bytes: number;
  /** How many of them are copied. */
  readonly merged: number;
}

function sizeOfValue(value: WireParameter['value']): Size {
  if (value === null) return { bytes: 0, merged: 0 };
  return Buffer.isBuffer(value) ? whole(value) : sizeOf(value);
}

function whole(value: Buffer): Size {
  return { bytes: value.length, merged: value.length };
}

function sizeOf(parts: readonly RowRange[]): Size {
  let bytes = 0;
  let merged = 0;
  let count = 0;
  for (const { documents, from, to, without } of parts) {
    for (let i = from; i < to; i++) {
      if (without !== null && without[i] === 1) continue;
      const length = documentLength(documents, i);
      bytes += length;
      merged += mergedBytes(length);
      count++;
    }
  }
  // Brackets, and a comma before each document but the first.
  const signs = 2 + Math.max(0, count - 1);
  return { bytes: bytes + signs, merged: merged + signs };
}

export function documentCount({ spans }: Documents): number {
  return spans === null ? 1 : spans.length >> 1;
}

export function documentLength({ bytes, spans }: Documents, i: number): number {
  return spans === null ? bytes.length : (spans[2 * i + 1] ?? 0) - (spans[2 * i] ?? 0);
}

/** Documents above this are sent as they are; smaller ones are copied together, which costs less than a write each. */
const mergeBytesMax = 32 * 1024;

/** How many of a document's bytes are copied. */
export function mergedBytes(length: number): number {
  return length <= mergeBytesMax ? length : 0;
}

export class Pieces {
  readonly #pieces: Buffer[] = [];
  readonly #buffer: Buffer;
  #start = 0;
  #at = 0;

  /** `bytes`: exactly what will be written, documents by `mergedBytes`. */
  constructor(bytes: number) {
    this.#buffer = Buffer.allocUnsafe(bytes);
  }

  byte(value: number): void {
    this.#buffer[this.#at++] = value;
  }

  int16(value: number): void {
    this.#at = this.#buffer.writeInt16BE(value, this.#at);
  }

  int32(value: number): void {
    this.#at = this.#buffer.writeInt32BE(value, this.#at);
  }

  copy(bytes: Buffer): void {
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  document(bytes: Buffer, start: number, end: number): void {
    if (mergedBytes(end - start) > 0) {
      this.#at += bytes.copy(this.#buffer, this.#at, start, end);
      return;
    }
    this.#cut();
    if (end > start) this.#pieces.push(bytes.subarray(start, end));
  }

  end(): Buffer[] {
    this.#cut();
    return this.#pieces;
  }

  #cut(): void {
    if (this.#at > this.#start) this.#pieces.push(this.#buffer.subarray(this.#start, this.#at));
    this.#start = this.#at;
  }
}
