/**
 * The keys of documents, compared with the columns of their table while they are scanned: that costs one comparison per key if keys come in their usual
 * order, else one lookup, and no object. Takes the names of columns; says how many keys of a document are columns, and what is wrong with them. Pure, but for
 * the first few keys that are no columns, which are held per table.
 */
import { Members, stringAt } from '../kit/json-walk.ts';
import { limits } from '../config/limits.ts';
import { cutName, listedNames, shownName } from './messages.ts';
import type { JsonProblem } from './messages.ts';

interface KnownKey {
  readonly bytes: Buffer;
  readonly known: boolean;
  /** The key that followed it last time: documents of one sender have their keys in one order. */
  next: KnownKey | null;
}

interface Sayable {
  readonly list: string;
  readonly byLower: ReadonlyMap<string, string>;
}

function sayable(names: readonly string[]): Sayable {
  return { list: listedNames(names), byLower: new Map(names.map((name) => [name.toLowerCase(), name])) };
}

const backslash = 0x5c;
/** PostgreSQL's bound on a name, in bytes, and some more for keys that are no columns: longer ones are not remembered. */
const rememberedBytesMax = 128;

export class DocumentKeys {
  /** Counts for the document that was scanned last. */
  known = 0;
  unknown = 0;
  /** The first keys that were no columns, each with `keyShownCharsMax` characters at most. */
  readonly remembered: string[] = [];
  readonly #names: ReadonlySet<string>;
  /** What messages need of the names: made once, as a body may have a line at fault every few bytes. */
  #said: Sayable | null = null;
  readonly #rejects: boolean;
  readonly #slots: KnownKey[][];
  /** Comes before the first key. */
  readonly #opening: KnownKey = { bytes: Buffer.of(), known: false, next: null };
  #last: KnownKey = this.#opening;

  /** `rejects`: a key that is no column is a problem. */
  constructor(names: readonly string[], rejects: boolean) {
    this.#names = new Set(names);
    this.#rejects = rejects;
    let size = 64;
    while (size < 2 * names.length) size *= 2;
    this.#slots = Array.from({ length: size }, () => []);
    // A key with a backslash in it is written with an escape, and compared by its characters.
    for (const name of names) if (!name.includes('\\')) this.#add(Buffer.from(name), true);
  }

  /** A document begins. */
  begin(): void {
    this.known = 0;
    this.unknown = 0;
    this.#last = this.#opening;
  }

  /** The characters of a key as written, without its quotes. */
  see(bytes: Uint8Array, start: number, end: number): void {
    const expected = this.#last.next;
    const asExpected = expected !== null && isSame(expected.bytes, bytes, start, end);
    const entry = asExpected ? expected : this.#find(bytes, start, end);
    if (entry !== null) {
      this.#last.next = entry;
      this.#last = entry;
    }
    if (entry === null ? this.#isKnownOtherwise(bytes, start, end) : entry.known) this.known++;
    else {
      this.unknown++;
      if (entry === null && this.remembered.length < limits.ignoredKeysMax) this.#remember(bytes, start, end);
    }
  }

  isKnown(bytes: Uint8Array, start: number, end: number): boolean {
    return this.#find(bytes, start, end)?.known ?? this.#isKnownOtherwise(bytes, start, end);
  }

  /** What is wrong with the object that was scanned last and begins at `start`. `{}` lacks nothing. */
  problem(bytes: Buffer, start: number, collects: boolean): JsonProblem | null {
    if (this.unknown === 0 || collects) return null;
    if (this.known === 0)
      return { code: 'no_column_matched', reason: this.#mismatch(bytes, start), offset: null };
    if (!this.#rejects) return null;
    const first = keysOf(bytes, start).find((key) => !this.#names.has(key)) ?? '';
    return { code: 'key_unknown', reason: shownName(first), offset: null };
  }

  #mismatch(bytes: Buffer, start: number): string {
    const keys = keysOf(bytes, start);
    this.#said ??= sayable([...this.#names]);
    const { list: columns, byLower } = this.#said;
    const twin = keys.find((key) => byLower.has(key.toLowerCase()));
    const sentence = `the document has ${listedNames(keys)}, the table ${columns}`;
    if (twin === undefined) return sentence;
    return `${sentence}; ${shownName(twin)} and ${shownName(byLower.get(twin.toLowerCase()) ?? '')} differ in case`;
  }

  #find(bytes: Uint8Array, start: number, end: number): KnownKey | null {
    const slot = this.#slots[hashOf(bytes, start, end) & (this.#slots.length - 1)]!;
    for (const entry of slot) if (isSame(entry.bytes, bytes, start, end)) return entry;
    return null;
  }

  #isKnownOtherwise(bytes: Uint8Array, start: number, end: number): boolean {
    const raw = bytes.subarray(start, end);
    return raw.includes(backslash) && this.#names.has(textOf(raw));
  }

  #remember(bytes: Uint8Array, start: number, end: number): void {
    if (end - start > rememberedBytesMax) return;
    const raw = Buffer.from(bytes.subarray(start, end));
    this.#add(raw, false);
    this.remembered.push(cutName(textOf(raw)));
  }

  #add(bytes: Buffer, known: boolean): void {
    this.#slots[hashOf(bytes, 0, bytes.length) & (this.#slots.length - 1)]!.push({
      bytes,
      known,
      next: null,
    });
  }
}

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let i = start; i < end; i++) hash = (Math.imul(hash, 31) + bytes[i]!) | 0;
  return hash;
}

function isSame(name: Buffer, bytes: Uint8Array, start: number, end: number): boolean {
  if (name.length !== end - start) return false;
  for (let i = 0; i < name.length; i++) if (name[i] !== bytes[start + i]) return false;
  return true;
}

/** The characters that a key means, from those as written. */
function textOf(raw: Uint8Array): string {
  const quoted = Buffer.concat([Buffer.from('"'), raw, Buffer.from('"')]);
  return stringAt(quoted, 0, quoted.length);
}

/** Keys of a document that are read for a message. */
const lookedAtMax = 1_000;

function keysOf(bytes: Buffer, start: number): string[] {
  const keys: string[] = [];
  const members = new Members(bytes, start);
  while (keys.length < lookedAtMax && members.next()) keys.push(members.key());
  return keys;
}
