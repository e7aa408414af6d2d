/**
 * Finds the value that does not fit its column: has the engine decode some rows without storing them, many questions in one
 * round trip, and narrows down to the row and the column. Only a question about the rows of one sender gives a reason to
 * tell, so that it holds nobody else's data. Changes nothing; the number of questions is bounded.
 */
import type { Column } from '../types/shape.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { isValue, changed } from './interpret-reply.ts';
import type { Failed, EngineReply } from './engine-reply.ts';
import type { SessionFacts } from './commit-connection.ts';
import { runsNoCode } from './plan-lock.ts';
import { textOf, executeMessages, parseMessage, syncMessage } from './wire-message.ts';
import {
  definitions,
  internalName,
  keyed,
  keyMissing,
  keyOnly,
  madeOf,
  missing,
  names,
  rowsFrom,
  sortKey,
  underPath,
  where,
} from './statements.ts';
import { rowTypes } from './table-statements.ts';
import type { TableStatements } from './table-statements.ts';
import type { RowRange } from './wire-message.ts';

export interface ValueAtFault {
  readonly row: number;
  /** null: the document itself is no JSON, or the key of a row to delete is missing. */
  readonly column: Column | null;
  readonly failed: Failed;
}

/** Some rows of a request: [from, to). */
interface RowsBetween {
  readonly from: number;
  readonly to: number;
}

/** Number of parts into which a range is cut: one more round trip costs about as much as a few more questions. */
const partsMax = 16;
/** Questions of one round trip. */
const questionsMax = 256;

export class ValueSearch {
  readonly #send: (messages: readonly Buffer[], expected: readonly number[]) => Promise<EngineReply[]>;
  readonly #table: TableStatements;
  readonly #facts: SessionFacts;
  #left: number;
  /** Those of callers that run at the same time share round trips: what is asked until the round trips before it are over. */
  #next: AskedTogether | null = null;
  #last: Promise<unknown> = Promise.resolve();

  /** `questionsLeft`: how many may be asked; after that nothing more is found. */
  constructor(
    send: (messages: readonly Buffer[], expected: readonly number[]) => Promise<EngineReply[]>,
    table: TableStatements,
    facts: SessionFacts,
    questionsLeft: number,
  ) {
    this.#send = send;
    this.#table = table;
    this.#facts = facts;
    this.#left = questionsLeft;
  }

  /** Whether nothing more can be asked. */
  get exhausted(): boolean {
    return this.#left <= 0;
  }

  /** The first row of `rows` that the engine cannot decode, with its first such column; null: none was found. */
  async first(rows: Rows): Promise<ValueAtFault | null> {
    const { columns } = this.#table.target.shape;
    const removed = await this.#firstRemoved(rows);
    const found =
      rows.count === 1
        ? { at: 0 }
        : await this.#search(rows.count, (ranges) =>
            this.#ask(ranges.map((range) => this.#decode(rows, range, columns))),
          );
    if (found === null || (removed !== null && removed.row < found.at) || rows.deletes?.[found.at] === 1)
      return removed;
    const row = { from: found.at, to: found.at + 1 };
    const column = await this.#search(1 + columns.length, (ranges) =>
      // Before the columns comes the document itself.
      this.#ask(
        ranges.map(({ from, to }) => this.#decode(rows, row, columns.slice(Math.max(0, from - 1), to - 1))),
      ),
    );
    if (column === null) return removed;
    return { row: found.at, column: columns[column.at - 1] ?? null, failed: column.failed };
  }

  /** The places of those requests that hold a value that does not fit. */
  failing(members: readonly Rows[]): Promise<number[]> {
    const { columns } = this.#table.target.shape;
    const whole = (rows: Rows) => part(rows, { from: 0, to: rows.count }, rows.deletes);
    return this.#searchAll(members.length, (ranges) =>
      this.#ask(
        ranges.map(
          ({ from, to }) =>
            () =>
              this.#probe(probeStatement(this.#table.target, columns), members.slice(from, to).map(whole)),
        ),
      ),
    );
  }

  /** Every value of these rows that does not fit its column, as far as it could be found: pairs of row and column. */
  async all(rows: Rows): Promise<{ readonly row: number; readonly column: Column }[]> {
    const found: { row: number; column: Column }[] = [];
    const { columns } = this.#table.target.shape;
    const whole = { from: 0, to: rows.count };
    const suspects = await this.#ask(columns.map((column) => this.#decode(rows, whole, [column])));
    for (const [i, column] of columns.entries()) {
      if (suspects[i] === null) continue;
      const bad = await this.#searchAll(rows.count, (ranges) =>
        this.#ask(ranges.map((range) => this.#decode(rows, range, [column]))),
      );
      for (const row of bad) found.push({ row, column });
    }
    return found;
  }

  /** The first row that deletes and whose key cannot be decoded, or is missing. */
  async #firstRemoved(rows: Rows): Promise<ValueAtFault | null> {
    if (rows.deletes === null || !rows.deletes.includes(1) || !this.#table.deletes) return null;
    const sql = removeProbeStatement(this.#table.target);
    if (sql === null) return null;
    const stays = rows.deletes.map((flag) => 1 - flag);
    const found = await this.#search(rows.count, (ranges) =>
      this.#ask(ranges.map((range) => () => this.#probe(sql, [part(rows, range, stays)]))),
    );
    return found === null ? null : { row: found.at, column: null, failed: found.failed };
  }

  /** The first of `count` things for which a question fails; `ask` puts one question for each range of them. */
  async #search(
    count: number,
    ask: (ranges: readonly RowsBetween[]) => Promise<(Failed | null)[]>,
  ): Promise<{ readonly at: number; readonly failed: Failed } | null> {
    let range: RowsBetween = { from: 0, to: count };
    for (;;) {
      const cut = range.to - range.from === 1 ? [range] : parts(range);
      const answers = await ask(cut);
      const i = answers.findIndex((answer) => answer !== null);
      const failed = answers[i];
      const next = cut[i];
      if (failed === null || failed === undefined || next === undefined) return null;
      if (next.to - next.from === 1) return { at: next.from, failed };
      range = next;
    }
  }

  /** All of `count` things for which a question fails. */
  async #searchAll(
    count: number,
    ask: (ranges: readonly RowsBetween[]) => Promise<(Failed | null)[]>,
  ): Promise<number[]> {
    const found: number[] = [];
    let cut = parts({ from: 0, to: count });
    while (cut.length > 0) {
      const answers = await ask(cut);
      const bad = cut.filter((_, i) => answers[i] !== null);
      for (const { from, to } of bad) if (to - from === 1) found.push(from);
      cut = bad.filter(({ from, to }) => to - from > 1).flatMap(parts);
    }
    return found;
  }

  #decode(rows: Rows, range: RowsBetween, columns: readonly Column[]): AskProbe {
    return () => this.#probe(probeStatement(this.#table.target, columns), [part(rows, range, rows.deletes)]);
  }

  #probe(sql: string, parts: readonly RowRange[]): ProbeStatement {
    const documents = { format: 0, value: parts } as const;
    const parse = parseMessage('', sql, rowTypes);
    const messages = executeMessages('', [documents, textOf(this.#facts.path), { format: 1, value: null }]);
    if (runsNoCode(this.#table.target)) return { messages: [parse, ...messages], count: 1 };
    // Its types may run code, which may be another owner's by now.
    const lock = this.#table.lock(false);
    const locked = lock.flatMap((step) => [...(step.statement?.messages ?? []), ...step.messages()]);
    return { messages: [...locked, parse, ...messages], count: lock.length + 1 };
  }

  /** The failure of each question, or null. Questions that may no longer be asked count as not failed. */
  async #ask(questions: readonly AskProbe[]): Promise<(Failed | null)[]> {
    const next = (this.#next ??= this.#begin());
    const at = next.questions.length;
    next.questions.push(...questions);
    return (await next.answers).slice(at, at + questions.length);
  }

  #begin(): AskedTogether {
    const questions: AskProbe[] = [];
    const answers = this.#last.then(() => {
      this.#next = null;
      return this.#askAll(questions);
    });
    this.#last = answers.catch(() => undefined);
    return { questions, answers };
  }

  async #askAll(questions: readonly AskProbe[]): Promise<(Failed | null)[]> {
    const answers: (Failed | null)[] = [];
    for (let at = 0; at < questions.length && this.#left > 0; at += questionsMax) {
      const some = questions.slice(at, at + Math.min(questionsMax, this.#left));
      this.#left -= some.length;
      for (const reply of await this.#put(some)) {
        const value = reply.kind === 'failed' && isValue(reply);
        answers.push(value ? reply : null);
        // A timeout or a lost connection says nothing about the value, and further questions are of no use.
        if (reply.kind !== 'done' && !value) this.#left = 0;
      }
    }
    while (answers.length < questions.length) answers.push(null);
    return answers;
  }

  /** Puts each question on its own, so that its failure does not prevent the others. */
  async #put(questions: readonly AskProbe[]): Promise<EngineReply[]> {
    const messages: Buffer[] = [];
    const counts: number[] = [];
    for (const ask of questions) {
      const question = ask();
      // The statement anew for each: behind a pooler the next one may be put in another session.
      messages.push(...question.messages, syncMessage);
      counts.push(question.count);
    }
    const replies = await this.#send(messages, counts);
    return replies.map((reply, i) =>
      reply.kind === 'failed' && reply.completed < (counts[i] ?? 1) - 1 ? changed : reply,
    );
  }
}

/** A question about some rows, made when it is put. */
type AskProbe = () => ProbeStatement;

interface AskedTogether {
  readonly questions: AskProbe[];
  readonly answers: Promise<readonly (Failed | null)[]>;
}

interface ProbeStatement {
  readonly messages: readonly Buffer[];
  /** How many statements are executed; all but the last check the table. */
  readonly count: number;
}

function part({ documents }: Rows, { from, to }: RowsBetween, without: Uint8Array | null): RowRange {
  return { documents, from, to, without };
}

function parts({ from, to }: RowsBetween): RowsBetween[] {
  const size = Math.ceil((to - from) / partsMax);
  const ranges: RowsBetween[] = [];
  for (let at = from; at < to; at += size) ranges.push({ from: at, to: Math.min(to, at + size) });
  return ranges;
}

const braceOpen = 0x7b;
const braceClose = 0x7d;

/**
 * The same rows with `,"column":null` before the closing brace of their documents, for values that do not fit: of two members of one name the
 * last one counts. Pure.
 */
export function withNulls(
  rows: Rows,
  values: readonly { readonly row: number; readonly column: Pick<Column, 'name'> }[],
): Rows {
  const added = new Map<number, string[]>();
  for (const { row, column } of values) {
    const members = added.get(row) ?? [];
    members.push(`${JSON.stringify(column.name)}:null`);
    added.set(row, members);
  }
  const { bytes, spans } = rows.documents;
  const next = new Uint32Array(2 * rows.count);
  const pieces: Buffer[] = [];
  let at = 0;
  for (let i = 0; i < rows.count; i++) {
    const document = bytes.subarray(spans?.[2 * i] ?? 0, spans?.[2 * i + 1] ?? bytes.length);
    next[2 * i] = at;
    for (const piece of spliced(document, added.get(i))) {
      pieces.push(piece);
      at += piece.length;
    }
    next[2 * i + 1] = at;
  }
  return { ...rows, documents: { bytes: Buffer.concat(pieces), spans: next } };
}

function spliced(document: Buffer, members: readonly string[] | undefined): Buffer[] {
  const end = document.lastIndexOf(braceClose);
  if (members === undefined || end < 0) return [document];
  const separator = isEmpty(document, end) ? '' : ',';
  return [document.subarray(0, end), Buffer.from(separator + members.join(',')), document.subarray(end)];
}

/** Whether only white space precedes the closing brace at `end`. */
function isEmpty(document: Buffer, end: number): boolean {
  for (let i = document.indexOf(braceOpen) + 1; i < end; i++) if ((document[i] ?? 0) > 0x20) return false;
  return true;
}

/** Decodes the keys of `$1` as `removeStatement` does, fails if one is missing, and changes nothing. */
function removeProbeStatement(target: Target): string | null {
  const { shape } = target;
  const key = sortKey(shape);
  if (key === null) return null;
  const check = `(case when ${missing(key)} then '${keyMissing}' else 'true' end)::pg_catalog.bool`;
  return `select pg_catalog.count(${check}) from ${keyed(keyOnly(shape))}${where(underPath(target))}`;
}

/** Decodes these columns of `$1` and discards them. */
export function probeStatement(target: Target, columns: readonly Column[]): string {
  const { document } = target.shape;
  const code = where(underPath(target));
  if (columns.length === 0)
    return `select pg_catalog.count(*) from pg_catalog.json_array_elements($1)${code}`;
  const made = columns.map((column) => madeOf(column, document, documentName(columns)));
  const values = made.flatMap((it) => (it === null ? [] : [`pg_catalog.count(${it})`]));
  if (values.length === 0)
    return `select pg_catalog.count(*) from pg_catalog.json_to_recordset($1) as r(${definitions(columns, document)})${code}`;
  return `select ${values.join(', ')} from ${rowsFrom(columns, document, true)} as r(${names(columns)}, ${documentName(columns)})${code}`;
}

function documentName(columns: readonly Column[]): string {
  return internalName({ columns, key: [] }, 'doc');
}
