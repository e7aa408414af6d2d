/**
 * What the engine answers, as JSON text. Takes messages of one request in turn, gives pieces of the answer's body;
 * refuses (returns false) beyond `gatewayResultBytesMax`, or when all results together hold too much. Rows become text
 * as they come, so that a large result is held once; those with a type that is not known yet wait for its name, and large
 * values for `settleLarge`, which takes them in slices.
 */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { limits } from '../limits.ts';
import type { Budget } from './budget.ts';
import { builtinTypes, encodeText, goneType } from './sql-types.ts';
import type { SqlType } from './sql-types.ts';

export interface Field {
  readonly name: string;
  readonly dataTypeID: number;
}

export type TypeLookup = (oid: number) => SqlType | undefined;

/** What one value costs while it waits, besides its text, in bytes. */
const waitingValueBytes = 64;
const chunkChars = 64 * 1024;
/** A value of so many characters is encoded in slices of so many. */
const largeChars = 1024 * 1024;

interface Statement {
  readonly fields: readonly Field[];
  /** `"name":` for each column, and its type; null: a type is not known yet. */
  encoders: readonly { readonly key: string; readonly type: SqlType }[] | null;
  readonly waiting: (readonly (string | null)[])[];
  readonly text: Text;
  rows: number;
  /** How many rows the engine says it was. */
  affected: number;
  command: string;
}

export class SqlResult {
  readonly #known: TypeLookup;
  readonly #budget: Budget;
  readonly #statements: Statement[] = [];
  readonly #notices: { readonly severity: string; readonly message: string }[] = [];
  #open: Statement | null = null;
  #held = 0;

  constructor(known: TypeLookup, budget: Budget) {
    this.#known = known;
    this.#budget = budget;
  }

  /** The column descriptions of the statement whose rows follow. */
  describe(fields: readonly Field[]): void {
    this.#open = newStatement(fields);
    this.#open.encoders = encodersOf(fields, this.#known);
  }

  /** Whether there was room for the row. */
  row(values: readonly (string | null)[]): boolean {
    const statement = (this.#open ??= newStatement([]));
    statement.rows++;
    if (statement.encoders === null) {
      statement.waiting.push(values);
      return this.#hold(values.reduce((sum, value) => sum + waitingValueBytes + (value?.length ?? 0), 0));
    }
    const before = statement.text.bytes;
    addRow(statement.text, statement.encoders, values, statement.rows === 1);
    return this.#hold(statement.text.bytes - before);
  }

  /** Encodes the large values. Whether there was room. */
  async settleLarge(): Promise<boolean> {
    for (const { text } of [...this.#statements, ...(this.#open === null ? [] : [this.#open])]) {
      for (const grown of text.settle()) {
        if (!this.#hold(grown)) return false;
        await endOfTurn();
      }
    }
    return true;
  }

  /** `tag`: e.g. `INSERT 0 3`, `CREATE TABLE`. */
  complete(tag: string): void {
    const statement = this.#open ?? newStatement([]);
    this.#open = null;
    const words = /^(.*?)(?: (\d+))?(?: (\d+))?$/.exec(tag);
    statement.command = words?.[1] ?? tag;
    statement.affected = Number(words?.[3] ?? words?.[2] ?? 0);
    this.#statements.push(statement);
  }

  /** The tag to tell in place of the engine's; null: the engine's own. */
  rename(tags: readonly (string | null)[]): void {
    tags.forEach((tag, index) => {
      const statement = this.#statements[index];
      if (tag !== null && statement !== undefined) statement.command = tag;
    });
  }

  notice(severity: string, message: string): void {
    if (this.#notices.length < limits.gatewayNoticesMax) this.#notices.push({ severity, message });
  }

  /** Types whose rows still wait. */
  unknownTypes(): number[] {
    const oids = this.#statements
      .filter((statement) => statement.encoders === null)
      .flatMap((statement) => statement.fields.map((field) => field.dataTypeID))
      .filter((oid) => this.#known(oid) === undefined && !builtinTypes.has(oid));
    return [...new Set(oids)];
  }

  /** Encodes what waited, now that every type is known or gone. Whether there was room. */
  settleTypes(): boolean {
    for (const statement of this.#statements) {
      if (statement.encoders !== null) continue;
      const encoders = encodersOf(statement.fields, (oid) => this.#known(oid) ?? goneType) ?? [];
      statement.encoders = encoders;
      for (const [index, values] of statement.waiting.splice(0).entries()) {
        const before = statement.text.bytes;
        addRow(statement.text, encoders, values, index === 0);
        if (!this.#hold(statement.text.bytes - before)) return false;
      }
    }
    return true;
  }

  get rows(): number {
    return this.#statements.reduce((sum, statement) => sum + statement.affected, 0);
  }

  /** The body in pieces; `release` when they have been sent or are not wanted. */
  *body(): Iterable<string | Buffer> {
    const last = this.#statements.at(-1) ?? newStatement([]);
    yield '{';
    yield* statementBody(last);
    if (this.#statements.length > 1) {
      yield ',"results":[';
      for (const [index, statement] of this.#statements.entries()) {
        yield index === 0 ? '{' : ',{';
        yield* statementBody(statement);
        yield '}';
      }
      yield ']';
    }
    if (this.#notices.length > 0) yield `,"notices":${JSON.stringify(this.#notices)}`;
    yield '}';
  }

  release(): void {
    this.#budget.give(this.#held);
    this.#held = 0;
  }

  get bytes(): number {
    return this.#held;
  }

  #hold(bytes: number): boolean {
    if (this.#held + bytes > limits.gatewayResultBytesMax) return false;
    if (!this.#budget.take(bytes)) return false;
    this.#held += bytes;
    return true;
  }
}

function newStatement(fields: readonly Field[]): Statement {
  return { fields, encoders: [], waiting: [], text: new Text(), rows: 0, affected: 0, command: '' };
}

function* statementBody(statement: Statement): Iterable<string | Buffer> {
  const names = uniqueNames(statement.fields);
  const columns = statement.fields.map((_field, index) => {
    const type = statement.encoders?.[index]?.type.name ?? goneType.name;
    return `{"name":${JSON.stringify(names[index])},"type":${JSON.stringify(type)}}`;
  });
  yield `"columns":[${columns.join(',')}],"rows":[`;
  yield* statement.text.pieces();
  yield `],"rowsAffected":${statement.affected},"command":${JSON.stringify(statement.command)}`;
}

function encodersOf(fields: readonly Field[], known: TypeLookup): Statement['encoders'] {
  const names = uniqueNames(fields);
  const encoders: { key: string; type: SqlType }[] = [];
  for (const [index, field] of fields.entries()) {
    const type = builtinTypes.get(field.dataTypeID) ?? known(field.dataTypeID);
    if (type === undefined) return null;
    encoders.push({ key: `${JSON.stringify(names[index])}:`, type });
  }
  return encoders;
}

/** A row is an object: the second column called `a` becomes `a_2`. */
function uniqueNames(fields: readonly Field[]): string[] {
  const taken = new Set(fields.map((field) => field.name));
  const given = new Set<string>();
  return fields.map(({ name }) => {
    let unique = name;
    for (let n = 2; given.has(unique) || (unique !== name && taken.has(unique)); n++) unique = `${name}_${n}`;
    given.add(unique);
    return unique;
  });
}

function addRow(
  to: Text,
  encoders: readonly { readonly key: string; readonly type: SqlType }[],
  values: readonly (string | null)[],
  first: boolean,
): void {
  let text = first ? '{' : ',{';
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? null;
    const column = encoders[i];
    if (i > 0) text += ',';
    text += column?.key ?? `${encodeText(String(i))}:`;
    const encode = column?.type.encode ?? encodeText;
    if (value === null) text += 'null';
    else if (encode !== encodeText || value.length < largeChars) text += encode(value);
    else {
      to.add(`${text}"`);
      to.addLarge(value);
      text = '"';
    }
  }
  to.add(`${text}}`);
}

/** A long text in pieces of bytes, and its end still as a string. */
class Text {
  /** What is still a string is the inside of a JSON string, not encoded yet. */
  #chunks: (Buffer | string)[] = [];
  #bytesDone = 0;
  #tail = '';

  /** Exact for what is encoded already, and at least as many characters for the rest. */
  get bytes(): number {
    return this.#bytesDone + this.#tail.length;
  }

  add(text: string): void {
    this.#tail += text;
    if (this.#tail.length >= chunkChars) this.#flush();
  }

  addLarge(value: string): void {
    this.#flush();
    this.#chunks.push(value);
    this.#bytesDone += value.length;
  }

  /** Encodes large values, a slice at each step; gives how much longer than its characters a slice has become. */
  *settle(): Iterable<number> {
    if (this.#chunks.every((chunk) => typeof chunk !== 'string')) return;
    const chunks = this.#chunks.toReversed();
    const encoded: (Buffer | string)[] = [];
    this.#chunks = encoded;
    for (let chunk = chunks.pop(); chunk !== undefined; chunk = chunks.pop()) {
      if (typeof chunk !== 'string') {
        encoded.push(chunk);
        continue;
      }
      for (let from = 0; from < chunk.length;) {
        const to = wholeCharacters(chunk, from + largeChars);
        const slice = Buffer.from(inside(chunk.slice(from, to)), 'utf8');
        encoded.push(slice);
        this.#bytesDone += slice.length - (to - from);
        yield slice.length - (to - from);
        from = to;
      }
    }
  }

  *pieces(): Iterable<string | Buffer> {
    for (const chunk of this.#chunks) yield typeof chunk === 'string' ? inside(chunk) : chunk;
    if (this.#tail !== '') yield this.#tail;
  }

  #flush(): void {
    if (this.#tail === '') return;
    const chunk = Buffer.from(this.#tail, 'utf8');
    this.#chunks.push(chunk);
    this.#bytesDone += chunk.length;
    this.#tail = '';
  }
}

/** What a JSON string has between its quotes. */
function inside(text: string): string {
  return encodeText(text).slice(1, -1);
}

/** The end of a slice that ends about there: not between the halves of a surrogate pair. */
function wholeCharacters(text: string, end: number): number {
  if (end >= text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd8_00 && last < 0xdc_00 ? end + 1 : end;
}
