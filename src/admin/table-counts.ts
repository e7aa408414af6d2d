/**
 * What is counted of requests and batches by table, as plain numbers: an answered request costs one lookup and two additions. Takes tables, returns
 * their counts: those of `tablesMax` tables, and of the rest together as `other`.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { TableName } from '../observe/observations.ts';

export const tableLabels = ['database', 'schema', 'table'] as const;

interface TableSeries {
  readonly labels: TableName;
  rows: number;
  /** Documents with keys that were not stored. */
  ignored: number;
  readonly answers: Map<string, { readonly status: number; count: number }>;
  /** Batches of WebSockets, by code. */
  readonly batches: Map<string, number>;
}

export class TableCounts {
  readonly #tablesMax: number;
  readonly #byName = new Map<string, TableSeries>();
  /** Rooms pass the same object for the same table as long as the table does not change. */
  readonly #ofTable = rememberedOf((table: TableName) => this.#named(table));
  readonly #noTable = newSeries({ database: '', schema: '', table: '' });
  readonly #other = newSeries({ database: 'other', schema: 'other', table: 'other' });

  constructor(tablesMax: number) {
    this.#tablesMax = tablesMax;
  }

  of(table: TableName | null): TableSeries {
    return table === null ? this.#noTable : this.#ofTable(table);
  }

  #named({ database, schema, table }: TableName): TableSeries {
    const name = JSON.stringify([database, schema, table]);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    if (this.#byName.size >= this.#tablesMax) return this.#other;
    const series = newSeries({ database, schema, table });
    this.#byName.set(name, series);
    return series;
  }

  *all(): Iterable<TableSeries> {
    yield this.#noTable;
    yield* this.#byName.values();
    yield this.#other;
  }
}

function newSeries(labels: TableName): TableSeries {
  return { labels, rows: 0, ignored: 0, answers: new Map(), batches: new Map() };
}

export function countAnswer(series: TableSeries, status: number, code: string, rows: number): void {
  series.rows += rows;
  const answer = series.answers.get(code);
  if (answer === undefined) series.answers.set(code, { status, count: 1 });
  else answer.count += 1;
}
