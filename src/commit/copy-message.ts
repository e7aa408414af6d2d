/**
 * The bytes of one group on the PostgreSQL wire, pure. Statement, rows and end go out in one write: the
 * protocol lets a client send CopyData before it has seen CopyInResponse (after an error the backend throws
 * stray CopyData and CopyDone away), so a group costs one round trip.
 */
import type { Documents, Group, Target } from '../flow.ts';
import { quoteIdentifier, quoteLiteral } from '../kit/sql-text.ts';

/** COPY's binary signature, flags and extension length: https://www.postgresql.org/docs/current/sql-copy.html */
const copyHeader = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
const copyTrailer = Buffer.from([0xff, 0xff]);
const copyDone = Buffer.from([0x63, 0, 0, 0, 4]);
/** int16 field count, int32 field length, and jsonb's version byte. */
const rowHeaderBytes = 7;
const jsonbVersion = 1;

/** Documents above this go out as they are; smaller ones are copied together, which costs less than a write each. */
const mergeBytesMax = 32 * 1024;

/** The statements of a group's transaction for one version of a table; the same for each of its groups. */
export function groupStatement(target: Target): string {
  const relation = `${quoteIdentifier(target.schema)}.${quoteIdentifier(target.table)}`;
  const name = target.shape.columns[0]?.name ?? '';
  const column = quoteIdentifier(name);
  // A simple query of several statements is one transaction: it commits after the last of them. `confirm` comes
  // after COPY has locked the table, so that no row commits into a table that was replaced under the same name.
  return (
    (target.waitsForDisk ? '' : 'set local synchronous_commit = off; ') +
    `copy ${relation} (${column}) from stdin (format binary); ` +
    `select headgate.confirm(${quoteLiteral(relation)}, ${target.oid}, ${quoteLiteral(target.shape.mark)})`
  );
}

/** A Query message. */
export function queryMessage(sql: string): Buffer {
  const length = Buffer.byteLength(sql);
  const message = Buffer.allocUnsafe(6 + length);
  message[0] = 0x51;
  message.writeInt32BE(5 + length, 1);
  message.write(sql, 5, 'utf8');
  message[5 + length] = 0;
  return message;
}

/** CopyData with all rows of the group, then CopyDone, as buffers to be written one after the other. */
export function copyMessages(members: Group['members']): Buffer[] {
  let bytes = copyHeader.length + copyTrailer.length;
  let merged = 5 + bytes + copyDone.length;
  for (const { documents } of members) {
    for (let i = 0; i < documentCount(documents); i++) {
      const length = documentLength(documents, i);
      bytes += rowHeaderBytes + length;
      merged += rowHeaderBytes + (length <= mergeBytesMax ? length : 0);
    }
  }
  const out = new Pieces(merged);
  out.byte(0x64);
  out.int32(bytes + 4);
  out.copy(copyHeader);
  for (const { documents } of members) {
    for (let i = 0; i < documentCount(documents); i++) {
      const start = documents.spans?.[2 * i] ?? 0;
      const length = documentLength(documents, i);
      out.byte(0);
      out.byte(1);
      out.int32(length + 1);
      out.byte(jsonbVersion);
      if (length <= mergeBytesMax) out.copyRange(documents.bytes, start, start + length);
      else out.pass(documents.bytes.subarray(start, start + length));
    }
  }
  out.copy(copyTrailer);
  out.copy(copyDone);
  return out.end();
}

function documentCount({ spans }: Documents): number {
  return spans === null ? 1 : spans.length >> 1;
}

function documentLength({ bytes, spans }: Documents, i: number): number {
  return spans === null ? bytes.length : (spans[2 * i + 1] ?? 0) - (spans[2 * i] ?? 0);
}

/** One exactly sized buffer that is cut where a large document is passed through uncopied. */
class Pieces {
  readonly #pieces: Buffer[] = [];
  readonly #buffer: Buffer;
  #start = 0;
  #at = 0;

  constructor(bytes: number) {
    this.#buffer = Buffer.allocUnsafe(bytes);
  }

  byte(value: number): void {
    this.#buffer[this.#at++] = value;
  }

  int32(value: number): void {
    this.#at = this.#buffer.writeInt32BE(value, this.#at);
  }

  copy(bytes: Buffer): void {
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  copyRange(bytes: Buffer, start: number, end: number): void {
    this.#at += bytes.copy(this.#buffer, this.#at, start, end);
  }

  pass(bytes: Buffer): void {
    this.#cut();
    this.#pieces.push(bytes);
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
