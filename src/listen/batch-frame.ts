/**
 * Reads the messages of a WebSocket's client: the init frame and batches. Pure: takes the bytes of one message; returns
 * its content, or throws Refused with `malformed_payload`, `timestamp_skew` or `body_too_large`. Of a batch only the frame around its
 * items is parsed here; each item's `data` is found, but not parsed: the table decides what it must be.
 */
import { limits } from '../config/limits.ts';
import { refusals, Refused } from '../errors/refusals.ts';

export interface BatchFrame {
  readonly id: bigint;
  readonly items: number;
  /** Where the `data` of each item begins and ends in the message, in turn. */
  readonly spans: Uint32Array;
  /** 1 for an item that deletes; null: none does. */
  readonly deletes: Uint8Array | null;
}

const idMax = 2n ** 64n - 1n;
/** Nesting that is followed; documents that may be stored have far less. */
const depthMax = 1_024;

/** Throws unless `bytes` are an init frame whose clock is at most `skewMs` from `nowMs`. */
export function readInit(bytes: Buffer, nowMs: number, skewMs: number): void {
  let init: unknown;
  try {
    init = JSON.parse(bytes.toString());
  } catch {
    throw malformed('the first message is not JSON');
  }
  const { type, timestamp } = Object(init) as { type?: unknown; timestamp?: unknown };
  if (type !== 'init') throw malformed('the first message must be {"type":"init","timestamp":<epoch ms>}');
  if (typeof timestamp !== 'number' || !Number.isSafeInteger(timestamp))
    throw malformed('the timestamp of the init frame must be a whole number of ms since 1970');
  const skew = Math.abs(nowMs - timestamp);
  if (skew > skewMs) {
    const seconds = (ms: number) => Math.ceil(ms / 1_000);
    throw new Refused(
      'timestamp_skew',
      `timestamp skew of ${seconds(skew)} s is beyond the ${seconds(skewMs)} s that are allowed`,
    );
  }
}

function malformed(reason: string): Refused {
  return new Refused('malformed_payload', `${refusals.malformed_payload.message}: ${reason}`);
}

/** `bytes` are valid UTF-8. */
export function readBatch(bytes: Buffer): BatchFrame {
  return new BatchReader(bytes).batch();
}

const space = Uint8Array.from({ length: 256 }, (_, c) =>
  c === 32 || c === 10 || c === 13 || c === 9 ? 1 : 0,
);
/** The bytes that end a number or a word. */
const endsToken = Uint8Array.from({ length: 256 }, (_, c) =>
  space[c] === 1 || c === 44 || c === 93 || c === 125 ? 1 : 0,
);

/** Words of every item: no string is made for them. */
const words = ['op', 'data', 'insert', 'update', 'upsert', 'delete'].map((text) => ({
  text,
  bytes: Buffer.from(text),
}));

function wordAt(bytes: Buffer, begin: number, end: number): string | null {
  const length = end - begin;
  if (length !== 2 && length !== 4 && length !== 6) return null;
  for (const word of words) {
    if (word.bytes.length !== length) continue;
    let i = 0;
    while (i < length && bytes[begin + i] === word.bytes[i]) i += 1;
    if (i === length) return word.text;
  }
  return null;
}

/** How far a string is examined byte by byte, from its beginning and after every quote that does not end it. */
const longStringBytes = 64;

class BatchReader {
  readonly #bytes: Buffer;
  #at = 0;
  #items = 0;
  #spans = new Uint32Array(256);
  #removed: number[] = [];

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  batch(): BatchFrame {
    let id: bigint | null = null;
    let items = false;
    this.#object((key) => {
      if (key === 'dml_batch_id') {
        if (id !== null) throw this.#bad('duplicate field `dml_batch_id`');
        id = this.#id();
      } else if (key === 'items') {
        if (items) throw this.#bad('duplicate field `items`');
        items = true;
        this.#array(() => this.#item());
      } else this.#skip();
    });
    this.#space();
    if (this.#at < this.#bytes.length) throw this.#bad('trailing characters');
    if (id === null) throw malformed('missing field `dml_batch_id`');
    if (!items) throw malformed('missing field `items`');
    const deletes = this.#removed.length === 0 ? null : new Uint8Array(this.#items);
    for (const item of this.#removed) deletes?.fill(1, item, item + 1);
    return { id, items: this.#items, spans: this.#spans.slice(0, this.#items * 2), deletes };
  }

  #id(): bigint {
    const text = this.#token();
    if (!/^(0|[1-9]\d{0,19})$/.test(text) || BigInt(text) > idMax)
      throw this.#bad('dml_batch_id must be a whole number from 0 to 18446744073709551615');
    return BigInt(text);
  }

  #item(): void {
    const number = this.#items + 1;
    let op: string | null = null;
    let begin = -1;
    let end = -1;
    this.#object((key) => {
      if (key === 'op') {
        if (op !== null) throw this.#bad(`item ${number} has two \`op\``);
        op = this.#text();
      } else if (key === 'data') {
        if (begin !== -1) throw this.#bad(`item ${number} has two \`data\``);
        this.#space();
        begin = this.#at;
        this.#skip();
        end = this.#at;
      } else this.#skip();
    });
    if (begin === -1) throw malformed(`item ${number} has no \`data\``);
    if (op === 'delete') this.#removed.push(this.#items);
    else if (op !== 'upsert' && op !== 'insert' && op !== 'update')
      throw malformed(`the \`op\` of item ${number} must be one of insert, upsert, update, delete`);
    this.#span(begin, end);
  }

  #span(begin: number, end: number): void {
    if (this.#items === limits.websocketItemsMax)
      throw new Refused('body_too_large', `a batch has at most ${limits.websocketItemsMax} items`);
    if (this.#items * 2 === this.#spans.length) {
      const larger = new Uint32Array(this.#spans.length * 2);
      larger.set(this.#spans);
      this.#spans = larger;
    }
    this.#spans[this.#items * 2] = begin;
    this.#spans[this.#items * 2 + 1] = end;
    this.#items += 1;
  }

  /** Calls `value` with each key, before its value. */
  #object(value: (key: string) => void): void {
    this.#open(123, 'an object');
    if (this.#closes(125)) return;
    for (;;) {
      const key = this.#text();
      this.#open(58, 'a colon');
      value(key);
      if (this.#closes(125)) return;
      this.#open(44, 'a comma');
    }
  }

  #array(value: () => void): void {
    this.#open(91, 'an array');
    if (this.#closes(93)) return;
    for (;;) {
      value();
      if (this.#closes(93)) return;
      this.#open(44, 'a comma');
    }
  }

  #open(byte: number, what: string): void {
    this.#space();
    if (this.#bytes[this.#at] !== byte) throw this.#bad(`expected ${what}`);
    this.#at += 1;
  }

  #closes(byte: number): boolean {
    this.#space();
    if (this.#bytes[this.#at] !== byte) return false;
    this.#at += 1;
    return true;
  }

  #space(): void {
    while (space[this.#bytes[this.#at] ?? 0] === 1) this.#at += 1;
  }

  /** A string, unescaped. */
  #text(): string {
    this.#space();
    const begin = this.#at;
    if (this.#bytes[begin] !== 34) throw this.#bad('expected a string');
    this.#string();
    const word = wordAt(this.#bytes, begin + 1, this.#at - 1);
    if (word !== null) return word;
    const raw = this.#bytes.toString('utf8', begin, this.#at);
    if (!raw.includes('\\')) return raw.slice(1, -1);
    try {
      return JSON.parse(raw) as string;
    } catch {
      throw this.#bad('invalid escape in a string');
    }
  }

  #string(): void {
    const bytes = this.#bytes;
    let at = this.#at + 1;
    for (let looked = 0; at < bytes.length; at++, looked++) {
      const c = bytes[at];
      if (c === 92) at += 1;
      else if (c === 34) {
        this.#at = at + 1;
        return;
      } else if (looked === longStringBytes) {
        at = this.#ofLong(at);
        looked = 0;
      }
    }
    throw malformed('it ends in the middle');
  }

  /**
   * Inside a long string, outside an escape: returns the byte before the next one that has to be examined, which is a quote, or
   * the first of the backslashes before it. Uses the machine's own search, which is many times faster than a loop.
   */
  #ofLong(at: number): number {
    const bytes = this.#bytes;
    const quote = bytes.indexOf(34, at);
    let next = quote < 0 ? bytes.length : quote;
    while (next > at && bytes[next - 1] === 92) next -= 1;
    return next - 1;
  }

  #token(): string {
    this.#space();
    const begin = this.#at;
    this.#word();
    return this.#bytes.toString('latin1', begin, this.#at);
  }

  #word(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    while (at < bytes.length && endsToken[bytes[at] ?? 0] === 0) at += 1;
    this.#at = at;
  }

  /** Skips one value, whatever it is; follows its brackets and strings, and does not examine the rest. */
  #skip(): void {
    this.#space();
    const bytes = this.#bytes;
    const first = bytes[this.#at];
    if (first === 34) return this.#string();
    if (first !== 123 && first !== 91) {
      const begin = this.#at;
      this.#word();
      if (this.#at === begin) throw this.#bad('expected a value');
      return;
    }
    let depth = 0;
    while (this.#at < bytes.length) {
      const c = bytes[this.#at];
      if (c === 34) {
        this.#string();
        continue;
      }
      this.#at += 1;
      if (c === 123 || c === 91) {
        depth += 1;
        if (depth > depthMax) throw this.#bad('nested too deeply');
      } else if (c === 125 || c === 93) {
        depth -= 1;
        if (depth === 0) return;
      }
    }
    throw malformed('it ends in the middle');
  }

  #bad(reason: string): Refused {
    const ends = this.#at >= this.#bytes.length;
    return malformed(ends ? 'it ends in the middle' : `${reason} at byte ${this.#at}`);
  }
}
