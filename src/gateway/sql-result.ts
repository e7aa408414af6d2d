/**
 * The engine's result as JSON text. Takes messages of one request in order, returns pieces of the answer's body; refuses (returns
 * false, with the reason in `refused`) beyond `gatewayResultBytesMax`, or if all results together hold too much. Rows become text as
 * they arrive, so that a large result is held once; rows with an unknown type wait until its name is known, and large values wait
 * for `settleLarge`, which encodes them in slices. A large result is read at its reader's speed; a reader who is too slow is cut off.
 */
import type { ServerResponse } from 'node:http';
import { longWork } from '../kit/time-slices.ts';
import { limits } from '../config/limits.ts';
import { Budget } from './memory-budget.ts';
import { addRow, encodersOf, inside, largeChars, uniqueNames } from './row-text.ts';
import type { Encoders, Field, TypeLookup } from './row-text.ts';
import { builtinTypes, goneType } from './sql-types.ts';

export interface Notice {
  readonly severity: string;
  readonly message: string;
  readonly detail: string | undefined;
  readonly hint: string | undefined;
}

/** What all results together hold. */
export class ResultMemory {
  readonly all: Budget;
  /** The part of `all` that exceeds each result's guaranteed share, bounded so that a few results cannot fill everything. */
  readonly beyond = new Budget(limits.gatewayResultSharesBytesMax);

  constructor(bytesMax: number = limits.gatewayResultsBytesMax) {
    this.all = new Budget(bytesMax);
  }
}

/** The cost of a waiting value in addition to its text, in bytes. */
const waitingValueBytes = 64;
/** The cost of a statement, once for its columns and once for its end, and of a column in addition to its name, in bytes. */
const statementBytes = 192;
const columnBytes = 256;
const chunkChars = 64 * 1024;

interface StatementResult {
  readonly fields: readonly Field[];
  /** null: a type is still unknown. */
  encoders: Encoders | null;
  readonly waiting: (readonly (string | null)[])[];
  readonly text: Text;
  rows: number;
  /** The number of rows that the engine reported. */
  affected: number;
  command: string;
}

export class SqlResult {
  readonly #known: TypeLookup;
  readonly #memory: ResultMemory;
  readonly #statements: StatementResult[] = [];
  readonly #notices: Notice[] = [];
  #open: StatementResult | null = null;
  #held = 0;
  /** The part of `#held` beyond the guaranteed share. */
  #heldBeyond = 0;
  #refused: 'result_too_large' | 'results_full' | null = null;

  constructor(known: TypeLookup, memory: ResultMemory) {
    this.#known = known;
    this.#memory = memory;
  }

  /** Some part of it found no room. */
  get overflowed(): boolean {
    return this.#refused !== null;
  }

  /** Why there was no room: permanently, or at the moment. */
  get refused(): 'result_too_large' | 'results_full' {
    return this.#refused ?? 'result_too_large';
  }

  /** Waits a while for room; calls back with whether there is any. Call the returned function to stop waiting. */
  whenRoom(ready: (room: boolean) => void): () => void {
    let timer: NodeJS.Timeout | null = null;
    const settle = (room: boolean): void => {
      end();
      if (!room) this.#refused ??= 'results_full';
      ready(room);
    };
    let stop: () => void = () => {};
    const end = (): void => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
    let there = false;
    stop = this.#memory.all.whenRoom(limits.gatewayResultRoomBytes, () => {
      there = true;
      settle(true);
    });
    if (!there) timer = setTimeout(() => settle(false), limits.gatewayResultRoomMs);
    return end;
  }

  get hasRoom(): boolean {
    return this.#memory.all.fits(limits.gatewayResultRoomBytes);
  }

  /** The column descriptions of the statement whose rows follow. Returns whether there was room. */
  describe(fields: readonly Field[]): boolean {
    const names = fields.reduce((sum, { name }) => sum + columnBytes + 2 * name.length, 0);
    if (!this.#hold(statementBytes + names)) return false;
    this.#open = newStatement(fields, encodersOf(fields, this.#known));
    return true;
  }

  /** Returns whether there was room for the row. */
  row(values: readonly (string | null)[]): boolean {
    const statement = (this.#open ??= newStatement([], []));
    statement.rows++;
    if (statement.encoders === null) {
      statement.waiting.push(values);
      return this.#hold(values.reduce((sum, value) => sum + waitingValueBytes + (value?.length ?? 0), 0));
    }
    const before = statement.text.bytes;
    addRow(statement.text, statement.encoders, values, statement.rows === 1);
    return this.#hold(statement.text.bytes - before);
  }

  /** Encodes the large values. Returns whether there was room. */
  async settleLarge(): Promise<boolean> {
    const bytes = this.#statements.reduce((sum, { text }) => sum + text.bytes, 0);
    return longWork.slices(bytes, this.#settleInSlices());
  }

  *#settleInSlices(): Generator<void, boolean> {
    for (const { text } of this.#statements) {
      for (const grown of text.settle()) {
        if (!this.#hold(grown)) return false;
        yield;
      }
    }
    return true;
  }

  /** `tag`: e.g. `INSERT 0 3`, `CREATE TABLE`. Returns whether there was room. */
  complete(tag: string): boolean {
    if (!this.#hold(statementBytes)) return false;
    const statement = this.#open ?? newStatement([], [], noText);
    this.#open = null;
    const words = /^(.*?)(?: (\d+))?(?: (\d+))?$/.exec(tag);
    statement.command = words?.[1] ?? tag;
    statement.affected = Number(words?.[3] ?? words?.[2] ?? 0);
    this.#statements.push(statement);
    return true;
  }

  /** Replaces the name of each command. */
  spell(command: (tag: string) => string): void {
    for (const statement of this.#statements) statement.command = command(statement.command);
  }

  /** Tags to report instead of the engine's; null: the engine's own. */
  rename(tags: readonly (string | null)[]): void {
    tags.forEach((tag, index) => {
      const statement = this.#statements[index];
      if (tag !== null && statement !== undefined) statement.command = tag;
    });
  }

  notice(notice: Notice): void {
    if (this.#notices.length >= limits.gatewayNoticesMax) return;
    const { message, detail = '', hint = '' } = notice;
    if (this.#hold(message.length + detail.length + hint.length)) this.#notices.push(notice);
  }

  /** Types for which rows wait. */
  unknownTypes(): number[] {
    const oids = this.#statements
      .filter((statement) => statement.encoders === null)
      .flatMap((statement) => statement.fields.map((field) => field.dataTypeID))
      .filter((oid) => this.#known(oid) === undefined && !builtinTypes.has(oid));
    return [...new Set(oids)];
  }

  /** Encodes the waiting rows, once every type is known or gone. Returns whether there was room. */
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

  /** The number of complete statements. */
  get statements(): number {
    return this.#statements.length;
  }

  get rows(): number {
    return this.#statements.reduce((sum, statement) => sum + statement.affected, 0);
  }

  /** The body in pieces of some size; call `release` once they have been sent or are not wanted. */
  *body(): Iterable<string | Buffer> {
    let text = '';
    for (const piece of this.#parts()) {
      if (typeof piece === 'string') text += piece;
      if (typeof piece === 'string' && text.length < chunkChars) continue;
      if (text !== '') yield text;
      if (typeof piece !== 'string') yield piece;
      text = '';
    }
    if (text !== '') yield text;
  }

  *#parts(): Iterable<string | Buffer> {
    const last = this.#statements.at(-1) ?? newStatement([], [], noText);
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
    this.#memory.all.give(this.#held);
    this.#memory.beyond.give(this.#heldBeyond);
    this.#held = 0;
    this.#heldBeyond = 0;
  }

  get bytes(): number {
    return this.#held;
  }

  #hold(bytes: number): boolean {
    const held = this.#held + bytes;
    if (held > limits.gatewayResultBytesMax) return this.#refuse('result_too_large');
    const beyond = Math.max(0, held - limits.gatewayResultShareBytes);
    if (beyond > this.#heldBeyond && !this.#memory.beyond.take(beyond - this.#heldBeyond)) {
      return this.#refuse('results_full');
    }
    this.#heldBeyond = Math.max(beyond, this.#heldBeyond);
    if (!this.#memory.all.take(bytes)) return this.#refuse('results_full');
    this.#held = held;
    return true;
  }

  #refuse(why: 'result_too_large' | 'results_full'): false {
    this.#refused ??= why;
    return false;
  }
}

function newStatement(
  fields: readonly Field[],
  encoders: Encoders | null,
  text: Text = new Text(),
): StatementResult {
  const waiting = encoders === null ? [] : noRows;
  return { fields, encoders, waiting, text, rows: 0, affected: 0, command: '' };
}

function* statementBody(statement: StatementResult): Iterable<string | Buffer> {
  const names = uniqueNames(statement.fields);
  const columns = statement.fields.map((_field, index) => {
    const type = statement.encoders?.[index]?.type.name ?? goneType.name;
    return `{"name":${JSON.stringify(names[index])},"type":${JSON.stringify(type)}}`;
  });
  yield `"columns":[${columns.join(',')}],"rows":[`;
  yield* statement.text.pieces();
  yield `],"rowsAffected":${statement.affected},"command":${JSON.stringify(statement.command)}`;
}

/** A long text in pieces of bytes, with its end still as a string. */
class Text {
  /** A string chunk is the inside of a JSON string, not yet encoded. */
  #chunks: (Buffer | string)[] = [];
  #bytesDone = 0;
  #tail = '';

  /** Exact for encoded parts; the number of characters, a lower bound, for the rest. */
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

  /** Encodes large values, one slice per step; returns by how many bytes a slice exceeds its characters. */
  *settle(): Iterable<number> {
    if (this.#chunks.every((chunk) => typeof chunk !== 'string')) return;
    const chunks = this.#chunks;
    this.#chunks = [];
    for (const chunk of chunks) {
      if (typeof chunk !== 'string') {
        this.#chunks.push(chunk);
        continue;
      }
      for (let from = 0; from < chunk.length;) {
        const to = wholeCharacters(chunk, from + largeChars);
        const slice = Buffer.from(inside(chunk.slice(from, to)), 'utf8');
        this.#chunks.push(slice);
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

/** The end of a slice, moved so as not to split a surrogate pair. */
function wholeCharacters(text: string, end: number): number {
  if (end >= text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd8_00 && last < 0xdc_00 ? end + 1 : end;
}

/** For the many statements that have none. Never written to. */
const noText = new Text();
const noRows: StatementResult['waiting'] = [];

/** Destroys a response if its reader pauses for too long, or is too slow overall: a result is held until it is read. */
export class SlowReader {
  readonly #response: ServerResponse;
  readonly #pauseMs: number;
  readonly #wholeMs: number;
  #pause: NodeJS.Timeout | null = null;

  /** `pauseMs`: how long its reader may pause. */
  constructor(response: ServerResponse, bytes: number, pauseMs: number) {
    this.#response = response;
    this.#pauseMs = pauseMs;
    this.#wholeMs = pauseMs + (bytes / limits.gatewayReadBytesPerSecondMin) * 1_000;
    // With several answers on one connection, the earlier ones are read first.
    if (response.socket === null) response.once('socket', () => this.#begin());
    else this.#begin();
  }

  /** Another piece was requested. */
  goesOn(): void {
    this.#pause?.refresh();
  }

  #begin(): void {
    const response = this.#response;
    if (response.destroyed || response.socket?.destroyed === true) return;
    const cut = (): void => void response.destroy();
    const pause = setTimeout(cut, this.#pauseMs);
    const whole = setTimeout(cut, this.#wholeMs);
    this.#pause = pause;
    response.once('close', () => {
      clearTimeout(pause);
      clearTimeout(whole);
    });
  }
}

export function* asBuffers(
  pieces: Iterable<string | Buffer>,
  goesOn: () => void = () => {},
): Iterable<Buffer> {
  for (const piece of pieces) {
    goesOn();
    yield typeof piece === 'string' ? Buffer.from(piece, 'utf8') : piece;
  }
}
