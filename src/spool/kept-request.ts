/**
 * A request as stored in a record of the spool, alone or with others of its table, and what is stored about the table. Pure: values to bytes, and back;
 * in the end to rows of the table as it is then, or to the refusal that a request of it meets, which is then alone.
 *
 *   request   0 length of the head, u32 | 4 head, JSON | body
 *   table     JSON
 *
 * Only headers are kept that rows are made from, or that an owner may see: never a header that carries a credential, unless a
 * column takes it.
 */
import { decodeRequest as decodeAtOnce, decodeWholes } from '../decode/decode-slices.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Rows } from '../types/rows.ts';
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

/** Each request on its own; what was sealed is what was joined. */
export function apart({ first, last, payload }: Sealed): Sealed[] {
  if (first === last) return [{ first, last, payload }];
  const each: Sealed[] = [];
  for (let at = 0, sequence = first; at < payload.length; sequence++) {
    const end = at + 4 + payload.readUInt32LE(at);
    each.push({ first: sequence, last: sequence, payload: payload.subarray(at + 4, end) });
    at = end;
  }
  return each;
}

/** Where the bodies are in the payload of a record of so many requests: begin and end of each. */
function bodySpans(payload: Buffer, requests: number): Uint32Array {
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

export interface SpooledMember extends Sealed {
  /** The rows for `target`, never a refusal for several requests; null: not decoded, because the table was not known. */
  readonly made: Rows | Refusal | null;
  readonly target: Target | null;
}

/** The part of a record behind a position: that has not arrived. */
export function behind(record: Sealed, position: bigint): Sealed[] {
  return record.first > position ? [record] : apart(record).filter(({ first }) => first > position);
}

/** Together if possible, otherwise one by one. `target` null: not known. */
export function decodeRecord(record: Sealed, target: Target | null): SpooledMember[] {
  const { first, last, payload } = record;
  if (target === null) return [undecoded(record)];
  const made = decodeWholes(target, payload, bodySpans(payload, requestsOf(record)));
  if (made !== null) return [{ first, last, payload, made, target }];
  return decodeEach(record, target);
}

export function decodeEach(record: Sealed, target: Target): SpooledMember[] {
  return apart(record).map((one) => ({ ...one, made: rowsOf(target, one.payload), target }));
}

function rowsOf(target: Target, payload: Buffer): Rows | Refusal {
  const request = decodeRequest(payload);
  if (request === null) return refusal('internal', 'it was kept by another version of Headgate');
  try {
    const { requestTarget, ...others } = request.head;
    const { body } = request;
    return decodeAtOnce(target, { ...others, target: requestTarget, body, accepted: true });
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}

export function undecoded({ first, last, payload }: Sealed): SpooledMember {
  return { first, last, payload, made: null, target: null };
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
