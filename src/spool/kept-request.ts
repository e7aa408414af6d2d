/**
 * A request as stored in a record of the spool, alone or with others of its table, and what is stored about the table. Pure: values to bytes, and back.
 *
 *   request   0 length of the head, u32 | 4 head, JSON | body
 *   table     JSON
 *
 * Only headers are kept that rows are made from, or that an owner may see: never a header that carries a credential, unless a
 * column takes it.
 */
import type { Target } from '../types/target.ts';

export interface KeptHead {
  readonly method: string;
  /** Path and query as received. */
  readonly requestTarget: string;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  /** Absent: the request is not traced. */
  readonly traceparent?: string | undefined;
}

export function encodeRequest(head: KeptHead, body: Buffer): Buffer {
  const text = Buffer.from(JSON.stringify(head));
  const bytes = Buffer.allocUnsafe(4 + text.length + body.length);
  bytes.writeUInt32LE(text.length, 0);
  text.copy(bytes, 4);
  body.copy(bytes, 4 + text.length);
  return bytes;
}

/** null: written by a later version. */
export function decodeRequest(payload: Buffer): { readonly head: KeptHead; readonly body: Buffer } | null {
  try {
    const length = payload.readUInt32LE(0);
    const head = JSON.parse(payload.toString('utf8', 4, 4 + length)) as KeptHead;
    if (!Array.isArray(head.rawHeaders) || typeof head.arrivedAtMs !== 'number') return null;
    return { head, body: payload.subarray(4 + length) };
  } catch {
    return null;
  }
}

/** Where the bodies are in the payload of a record of so many requests: begin and end of each. */
export function bodySpans(payload: Buffer, requests: number): Uint32Array {
  const spans = new Uint32Array(2 * requests);
  let at = 0;
  for (let i = 0; i < spans.length; i += 2) {
    const start = requests === 1 ? 0 : at + 4;
    const end = requests === 1 ? payload.length : start + payload.readUInt32LE(at);
    spans[i] = start + 4 + payload.readUInt32LE(start);
    spans[i + 1] = at = end;
  }
  return spans;
}

/** The payload of a record with these requests. */
export function joinPayloads(payloads: readonly Buffer[]): Buffer {
  const [only] = payloads;
  if (only !== undefined && payloads.length === 1) return only;
  const bytes = Buffer.allocUnsafe(payloads.reduce((sum, { length }) => sum + 4 + length, 0));
  let at = 0;
  for (const payload of payloads) {
    at = bytes.writeUInt32LE(payload.length, at);
    at += payload.copy(bytes, at);
  }
  return bytes;
}

/** The reverse; what was sealed is what was joined. */
export function splitPayloads(payload: Buffer, requests: number): Buffer[] {
  if (requests === 1) return [payload];
  const payloads: Buffer[] = [];
  for (let at = 0; at < payload.length;) {
    const end = at + 4 + payload.readUInt32LE(at);
    payloads.push(payload.subarray(at + 4, end));
    at = end;
  }
  return payloads;
}

/** Requests of one table in one record, in order; their sequences have no gap. */
export interface Sealed {
  readonly first: bigint;
  readonly last: bigint;
  /** The payload of the record (`joinPayloads`). */
  readonly payload: Buffer;
}

export function requestsOf({ first, last }: Sealed): number {
  return Number(last - first) + 1;
}

/** Each request on its own. */
export function apart(record: Sealed): Sealed[] {
  const { first, payload } = record;
  const each = splitPayloads(payload, requestsOf(record));
  return each.map((one, i) => ({ first: first + BigInt(i), last: first + BigInt(i), payload: one }));
}

const decoderHeaders = 'x-rw-webhook-';

export function keptHeaders(rawHeaders: readonly string[], { intake, dedupe }: Target): string[] {
  const { hiddenHeaders } = intake;
  const kept: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [given = '', value = ''] = rawHeaders.slice(at, at + 2);
    const name = given.toLowerCase();
    const included = intake.includes.some((it) => it.what === 'header' && it.header.toLowerCase() === name);
    const shown = hiddenHeaders !== null && !hiddenHeaders.has(name);
    // What reads the body needs it, even if VALIDATE reads it, too.
    const readsBody = intake.format === 'form' && name === 'content-type';
    if (
      included ||
      shown ||
      readsBody ||
      dedupe?.headers.has(name) === true ||
      name.startsWith(decoderHeaders)
    )
      kept.push(given, value);
  }
  return kept;
}

export interface SpooledTable {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  /** headgate.home() of the database. */
  readonly home: string;
}

export function encodeTable(table: SpooledTable): Buffer {
  const { database, schema, table: name, oid, home } = table;
  return Buffer.from(JSON.stringify({ database, schema, table: name, oid, home }));
}

/** null: it is no table, or written by a later version. */
export function decodeTable(payload: Buffer): SpooledTable | null {
  try {
    const made = JSON.parse(payload.toString('utf8')) as SpooledTable;
    return typeof made.home === 'string' && typeof made.oid === 'number' ? made : null;
  } catch {
    return null;
  }
}
