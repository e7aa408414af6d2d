/**
 * How the documents of one request become rows of one table: keys fill columns (`typed`), or the whole document goes
 * into one of them (wrapped as `{"data":<document>}`); INCLUDE columns are put before the closing brace, where they win
 * over members of the same name, because the engine takes the last; values are converted in place. All else
 * remains byte for byte. Takes documents that scanJson has accepted, whose keys are compared with the columns while they are scanned: that
 * costs one comparison per key if keys come in their usual order, else one lookup, and no object. Pure, but for the first few keys that are no
 * columns, which are held per table.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Ignored } from '../types/rows.ts';
import type { Intake, Target } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { isString, Members, skipSpace, stringAt } from '../kit/json-walk.ts';
import { limits } from '../config/limits.ts';
import { conversionOf, formConversionOf, wholeConversionOf } from './conversions.ts';
import type { Convert } from './conversions.ts';
import { bodyInclude } from './includes.ts';
import { scannedFraction } from './json-scan.ts';
import type { JsonProblem, JsonScanOptions, KeySink } from './json-scan.ts';
import { defaultOptions } from './options.ts';
import type { DecodeOptions } from './options.ts';
import type { RowBytes } from './row-bytes.ts';

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
  return { list: list(names), byLower: new Map(names.map((name) => [name.toLowerCase(), name])) };
}

const backslash = 0x5c;
/** PostgreSQL's bound on a name, in bytes, and some more for keys that are no columns: longer ones are not remembered. */
const rememberedBytesMax = 128;

export class DocumentKeys implements KeySink {
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
    return { code: 'key_unknown', reason: shown(first), offset: null };
  }

  #mismatch(bytes: Buffer, start: number): string {
    const keys = keysOf(bytes, start);
    this.#said ??= sayable([...this.#names]);
    const { list: columns, byLower } = this.#said;
    const twin = keys.find((key) => byLower.has(key.toLowerCase()));
    const sentence = `the document has ${list(keys)}, the table ${columns}`;
    if (twin === undefined) return sentence;
    return `${sentence}; ${shown(twin)} and ${shown(byLower.get(twin.toLowerCase()) ?? '')} differ in case`;
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
    this.remembered.push(cut(textOf(raw)));
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

function list(names: readonly string[]): string {
  const { keysShownMax } = limits;
  const told = names.slice(0, keysShownMax).map(shown).join(', ');
  return names.length > keysShownMax ? `${told} and ${names.length - keysShownMax} more` : told;
}

/** In quotes, with characters replaced that a terminal might obey. */
function shown(name: string): string {
  return JSON.stringify(cut(name)).replaceAll(/[\p{Cc}\p{Cf}]/gu, '\ufffd');
}

function cut(name: string): string {
  const points = Array.from(name.slice(0, 2 * limits.keyShownCharsMax));
  return points.length > limits.keyShownCharsMax
    ? `${points.slice(0, limits.keyShownCharsMax).join('')}…`
    : name;
}

/** What is known of a table before any request, with the options of one. */
export interface RowPlan {
  /** `{"data":`; null: the document is the row. */
  readonly head: Buffer | null;
  /** The document is stored as a string that holds its text, including white space around it; see Shape.document. */
  readonly asText: boolean;
  /** How documents are scanned. */
  readonly scan: JsonScanOptions;
  /** Documents must be objects, because their keys are columns. */
  readonly typed: boolean;
  readonly columns: readonly PlannedColumn[];
  readonly byName: ReadonlyMap<string, PlannedColumn>;
  /** Which keys of a document are columns; null: its keys fill none. */
  readonly keys: DocumentKeys | null;
  /** The column that takes members whose keys are no columns, as one object; null: no column does. */
  readonly collect: string | null;
  /** Columns of the primary key that a document itself must have to name a row; null: no document can. */
  readonly key: readonly Buffer[] | null;
  /** What INCLUDE adds ends with the bytes that the row was made from. */
  readonly takesBytes: boolean;
  /** The same for a document with numbers that columns of integers take only as whole ones; null: there is no such column. */
  readonly whole: RowPlan | null;
}

/** A column whose members are examined. */
interface PlannedColumn {
  readonly name: Buffer;
  readonly column: string;
  readonly convert: Convert | null;
  /** Debezium's placeholder for a value that the sender does not have leaves the column as it is. */
  readonly keepable: boolean;
}

/** One plan per target in service, as most requests bring no option. */
const ordinary = rememberedOf(({ shape, intake }: Target) => makePlan(shape, intake, defaultOptions));

export function planOf(target: Target, options: DecodeOptions): RowPlan {
  return options === defaultOptions ? ordinary(target) : makePlan(target.shape, target.intake, options);
}

/** For rows whose keys are columns whatever the table's intake says. */
export const planByKeys = rememberedOf((shape: Shape): RowPlan => {
  const intake = { document: null, includes: [], unknown: 'ignore', format: 'json' } as const;
  // Events of the gateway have the values of their columns.
  return { ...makePlan(shape, intake, defaultOptions), whole: null };
});

/** pg_type.oid */
const jsonType = 114;

function makePlan(
  shape: Shape,
  { document, includes, unknown, format }: Pick<Intake, 'document' | 'includes' | 'unknown' | 'format'>,
  options: DecodeOptions,
): RowPlan {
  const included = new Set(includes.map((include) => include.column));
  const takesBytes = bodyInclude(includes) !== null;
  const key = shape.key
    .filter(({ name, generated }) => generated === null && !included.has(name) && name !== document)
    .map(({ name }) => Buffer.from(name));
  if (document !== null) {
    const head = shape.writeMode === 'copy' ? null : Buffer.from(`{${JSON.stringify(document)}:`);
    const asText = shape.columns.some(({ name, baseType }) => name === document && baseType === jsonType);
    return {
      head,
      asText,
      scan: { depthMax: limits.jsonDepthMax, asText },
      typed: false,
      columns: [],
      byName: new Map(),
      keys: null,
      collect: null,
      key: key.length === 0 ? key : null,
      takesBytes,
      whole: null,
    };
  }
  const keyNames = new Set(shape.key.map(({ name }) => name));
  const own = shape.columns.filter(({ name }) => !included.has(name));
  const planned = (conversion: typeof conversionOf): PlannedColumn[] =>
    own
      .map((column) => ({
        name: Buffer.from(column.name),
        column: column.name,
        convert: conversion(column, options),
        keepable: options.toast && shape.writeMode === 'upsert' && !keyNames.has(column.name),
      }))
      .filter(({ convert, keepable }) => convert !== null || keepable);
  const collect = typeof unknown === 'object' ? unknown.into : null;
  // A column that INCLUDE fills is filled by no member, and the column that collects members takes none for itself.
  const names = shape.columns
    .map(({ name }) => name)
    .filter((name) => !included.has(name) && name !== collect);
  const keys = new DocumentKeys(names, unknown === 'reject');
  const scan = { depthMax: limits.jsonDepthMax, keys };
  const shared = { head: null, asText: false, scan, typed: true, keys, collect, key, takesBytes };
  const withColumns = (columns: PlannedColumn[], whole: RowPlan | null): RowPlan => ({
    ...shared,
    columns,
    byName: new Map(columns.map((it) => [it.column, it])),
    whole,
  });
  const columns = planned(format === 'form' ? formConversionOf : conversionOf);
  const integers = own.some((column) => wholeConversionOf(column, options) !== null);
  if (format !== 'json' || !integers) return withColumns(columns, null);
  const whole = planned((column) => wholeConversionOf(column, options) ?? conversionOf(column, options));
  return withColumns(columns, withColumns(whole, null));
}

/** Whether every row of this plan is its document as received. */
export function changesNothing(plan: RowPlan, included: Buffer | null): boolean {
  return plan.head === null && included === null && plan.columns.length === 0 && plan.collect === null;
}

/** What is wrong with the keys of the document that was scanned last and begins at `start`. */
export function keyProblem({ keys, collect }: RowPlan, bytes: Buffer, start: number): JsonProblem | null {
  return keys === null || keys.unknown === 0 ? null : keys.problem(bytes, start, collect !== null);
}

/** What was not stored of so many documents. */
export function ignoredOf({ keys, collect }: RowPlan, documents: number): Ignored | null {
  if (keys === null || collect !== null || documents === 0) return null;
  return { documents, keys: keys.remembered };
}

/** By how much a row is longer than its document, in bytes, without what conversions add. */
export function rowGrowth(plan: RowPlan, included: Buffer | null): number {
  return (plan.head?.length ?? 0) + (included?.length ?? 0) + 2;
}

const openingBrace = 0x7b;
const closingBrace = 0x7d;
const comma = 0x2c;

/**
 * Appends the row of the document from `start` to `end`, which are no white space unless it is kept as text. Returns the columns that it
 * leaves as they are in an existing row, or null.
 */
export function writeRow(
  out: RowBytes,
  plan: RowPlan,
  included: Buffer | null,
  bytes: Buffer,
  start: number,
  end: number,
  raw?: Buffer,
): readonly string[] | null {
  const close = (): void => {
    if (included !== null) out.write(included);
    if (plan.takesBytes) {
      if (raw === undefined) out.hex(bytes, start, end);
      else out.hex(raw, 0, raw.length);
      out.byte(quote);
    }
    out.byte(closingBrace);
  };
  if (plan.head !== null) {
    out.write(plan.head);
    if (plan.asText) writeText(out, bytes, start, end);
    else out.copy(bytes, start, end);
    if (included !== null) out.byte(comma);
    close();
    return null;
  }
  if (!plan.typed) {
    out.copy(bytes, start, end);
    return null;
  }
  kept.clear();
  if (plan.collect !== null && plan.keys !== null && plan.keys.unknown > 0) {
    writeCollected(out, plan, plan.keys, bytes, start);
    if (included !== null) out.byte(comma);
    close();
    return keptColumns(plan);
  }
  const from = plan.columns.length === 0 ? start : writeConverted(out, plan, bytes, start);
  out.copy(bytes, from, end - 1);
  if (included !== null && bytes[skipSpace(bytes, start + 1)] !== closingBrace) out.byte(comma);
  close();
  return keptColumns(plan);
}

function keptColumns({ columns }: RowPlan): readonly string[] | null {
  if (kept.size === 0) return null;
  return columns.filter(({ column }) => kept.has(column)).map(({ column }) => column);
}

/** The document without its closing brace: its columns' members, and all others as one object in a column. */
function writeCollected(
  out: RowBytes,
  plan: RowPlan,
  keys: DocumentKeys,
  bytes: Buffer,
  start: number,
): void {
  out.byte(openingBrace);
  for (const known of [true, false]) {
    if (!known) out.write(Buffer.from(`${JSON.stringify(plan.collect)}:{`));
    let first = true;
    members.open(bytes, start);
    while (members.next()) {
      const { keyStart, keyEnd, valueStart, valueEnd } = members;
      if (keys.isKnown(bytes, keyStart, keyEnd) !== known) continue;
      if (!first && !known) out.byte(comma);
      first = false;
      out.copy(bytes, keyStart - 1, valueStart);
      const column = known ? columnOfMember(plan) : null;
      const text = column === null ? null : replacement(column, bytes, valueStart, valueEnd);
      if (text === null) out.copy(bytes, valueStart, valueEnd);
      else out.ascii(text);
      if (known) out.byte(comma);
    }
  }
  out.byte(closingBrace);
  members.open(nothing, 0);
}

const quote = 0x22;

function writeText(out: RowBytes, bytes: Buffer, start: number, end: number): void {
  out.byte(quote);
  out.escaped(bytes, start, end);
  out.byte(quote);
}

/** Reshaping is synchronous, so one walk and one set serve all documents. No body is held between two of them. */
const nothing = Buffer.of();
const members = new Members(nothing, 0);
const kept = new Set<string>();

/** Appends the document up to the end of the last value that is converted; returns that position. */
function writeConverted(out: RowBytes, plan: RowPlan, bytes: Buffer, start: number): number {
  let from = start;
  members.open(bytes, start);
  while (members.next()) {
    const { valueStart, valueEnd } = members;
    const column = columnOfMember(plan);
    if (column === null) continue;
    const text = replacement(column, bytes, valueStart, valueEnd);
    if (text === null) continue;
    out.copy(bytes, from, valueStart);
    out.ascii(text);
    from = valueEnd;
  }
  members.open(nothing, 0);
  return from;
}

/** With more columns than this, a string for each key costs less than the comparison with each column. */
const comparedMax = 8;

function columnOfMember({ columns, byName }: RowPlan): PlannedColumn | null {
  if (columns.length > comparedMax || members.isEscaped) return byName.get(members.key()) ?? null;
  for (const column of columns) if (members.keyIs(column.name)) return column;
  return null;
}

/** What Debezium sends in place of a large value that an update did not touch. */
const unavailable = '__debezium_unavailable_value';

function replacement(column: PlannedColumn, bytes: Buffer, start: number, end: number): string | null {
  if (column.keepable) {
    const isUnavailable =
      isString(bytes, start) &&
      end - start === unavailable.length + 2 &&
      bytes.toString('latin1', start + 1, end - 1) === unavailable;
    // Of two members with the same name the last counts.
    if (isUnavailable) kept.add(column.column);
    else kept.delete(column.column);
    if (isUnavailable) return 'null';
  }
  return column.convert === null ? null : column.convert(bytes, start, end);
}

/** Whether a document has a value for each column of the primary key that its members fill. */
export function namesRow(plan: RowPlan, bytes: Buffer, start: number): boolean {
  if (plan.key === null) return false;
  return plan.key.every((name) => {
    let found = false;
    members.open(bytes, start);
    while (members.next()) {
      if (members.keyIs(name)) found = bytes[members.valueStart] !== 0x6e; /* null */
    }
    return found;
  });
}

/** The plan for the document that was scanned last. */
export function planForScanned(plan: RowPlan): RowPlan {
  return plan.whole !== null && scannedFraction() ? plan.whole : plan;
}

/** Whether the plan for whole numbers changes a value of the document that was scanned last. */
export function needsWhole(plan: RowPlan, bytes: Buffer, start: number): boolean {
  const { whole } = plan;
  if (whole === null || !scannedFraction()) return false;
  let needs = false;
  members.open(bytes, start);
  while (!needs && members.next()) {
    const column = columnOfMember(whole);
    needs = (column?.convert?.(bytes, members.valueStart, members.valueEnd) ?? null) !== null;
  }
  members.open(nothing, 0);
  return needs;
}

export function isRow(plan: RowPlan, bytes: Buffer, start: number): boolean {
  return !plan.typed || bytes[start] === openingBrace;
}
