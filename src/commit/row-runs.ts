/**
 * Rows of several requests that one statement can store. A new run begins where other columns are kept, or where the bounds are reached. A request that
 * keeps no columns is in one run, as far as it fits.
 */
import type { Rows } from '../types/rows.ts';
import { documentLength } from './wire-message.ts';
import type { RowRange } from './wire-message.ts';

export interface RowRun {
  /** Columns that an existing row keeps. */
  readonly kept: readonly string[];
  readonly parts: RowRange[];
  readonly rows: number;
  /** One byte per row, 1 if it deletes; null: none does. */
  readonly deletes: Buffer | null;
}

interface RowRunBounds {
  readonly rowsMax: number;
  readonly bytesMax: number;
}

export function toRuns(members: readonly Rows[], bounds: RowRunBounds): RowRun[] {
  const builder = new RunBuilder(bounds);
  for (const member of members) builder.add(member);
  return builder.end();
}

const nothing: readonly string[] = [];

class RunBuilder {
  readonly #bounds: RowRunBounds;
  readonly #runs: RowRun[] = [];
  #kept = nothing;
  #parts: RowRange[] = [];
  #deletes: (Uint8Array | number)[] = [];
  #removing = false;
  #rows = 0;
  #bytes = 0;

  constructor(bounds: RowRunBounds) {
    this.#bounds = bounds;
  }

  add(member: Rows): void {
    const { rowsMax, bytesMax } = this.#bounds;
    if (
      member.keeps === null &&
      this.#rows + member.count <= rowsMax &&
      this.#bytes + member.bytes <= bytesMax
    ) {
      if (this.#kept.length > 0) this.#cut();
      this.#push(member, 0, member.count, member.bytes);
      return;
    }
    let from = 0;
    let bytes = 0;
    const push = (to: number) => {
      if (to > from) this.#push(member, from, to, bytes);
      from = to;
      bytes = 0;
    };
    for (let i = 0; i < member.count; i++) {
      const kept = member.keeps?.get(i) ?? nothing;
      const length = documentLength(member.documents, i);
      const full = this.#rows + i - from >= rowsMax || this.#bytes + bytes + length > bytesMax;
      if (!same(kept, this.#kept) || (full && this.#rows + i - from > 0)) {
        push(i);
        this.#cut();
        this.#kept = kept;
      }
      bytes += length;
    }
    push(member.count);
  }

  end(): RowRun[] {
    this.#cut();
    return this.#runs;
  }

  #push({ documents, deletes }: Rows, from: number, to: number, bytes: number): void {
    this.#parts.push({ documents, from, to, without: deletes });
    this.#deletes.push(deletes?.subarray(from, to) ?? to - from);
    this.#removing ||= deletes?.subarray(from, to).includes(1) === true;
    this.#rows += to - from;
    this.#bytes += bytes;
  }

  #cut(): void {
    if (this.#rows > 0) {
      const flags = () =>
        Buffer.concat(this.#deletes.map((part) => (typeof part === 'number' ? Buffer.alloc(part) : part)));
      this.#runs.push({
        kept: this.#kept,
        parts: this.#parts,
        rows: this.#rows,
        deletes: this.#removing ? flags() : null,
      });
    }
    this.#kept = nothing;
    this.#parts = [];
    this.#deletes = [];
    this.#removing = false;
    this.#rows = 0;
    this.#bytes = 0;
  }
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
