/** Values as they are: JSON indented token by token, text, bytes in hexadecimal, and tables of results. Numbers are never parsed. */
import type { JSX } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { SqlTable } from '../api.ts';
import { csvOf, jsonOf, tabbedOf } from '../csv.ts';
import { prettyJson } from '../pretty.ts';
import { cut, hexLines, sizeText } from '../visible-text.ts';
import type { TableRef } from '../statements.ts';
import { MakeColumn } from './make-column.tsx';
import { Copy } from './components.tsx';
import { Text } from './text.tsx';

const firstChars = 64 * 1024;
const cellChars = 120;
const shortChars = 1_000;
/** Rows that are drawn at once: a thousand rows of arbitrary text would block the tab. */
const rowsStep = 100;
/** OIDs in pg_type. */
const jsonbType = 3802;
/** By their OIDs in pg_type, as people write them; of others nothing is said. */
const typeNames: Readonly<Record<number, string>> = {
  16: 'boolean',
  17: 'bytea',
  20: 'bigint',
  21: 'smallint',
  23: 'integer',
  25: 'text',
  114: 'json',
  700: 'real',
  701: 'double',
  1043: 'varchar',
  1082: 'date',
  1114: 'timestamp',
  1184: 'timestamptz',
  1186: 'interval',
  1700: 'numeric',
  2950: 'uuid',
  3802: 'jsonb',
};
/** OIDs of numbers, which are right-aligned. */
const numbers = new Set([20, 21, 23, 26, 700, 701, 1700]);

/** Text that may be JSON. */
export function Value({
  text,
  copied = text,
}: {
  readonly text: string;
  readonly copied?: string;
}): JSX.Element {
  const [max, setMax] = useState(firstChars);
  const shown = cut(text, max);
  const tokens = useMemo(() => (shown.whole ? prettyJson(text) : null), [text, max]);
  const [raw, setRaw] = useState(false);
  return (
    <div class="code value">
      <pre tabIndex={0}>
        {tokens === null || raw ? (
          <Text of={shown.text} max={max} />
        ) : (
          tokens.map((it, i) =>
            it.kind === 'space' || it.kind === 'mark' ? (
              it.text
            ) : (
              <span key={i} class={`json-${it.kind}`}>
                <Text of={it.text} />
              </span>
            ),
          )
        )}
      </pre>
      <span class="buttons">
        {tokens === null ? null : (
          <button type="button" class="small quiet" onClick={() => setRaw(!raw)}>
            {raw ? 'Indented' : 'Raw'}
          </button>
        )}
        {shown.whole ? null : (
          <button type="button" class="small" onClick={() => setMax(max * 4)}>
            Show more ({sizeText(text.length)})
          </button>
        )}
        <Copy text={copied} />
      </span>
    </div>
  );
}

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64.replaceAll(/\s/g, '')), (char) => char.charCodeAt(0));
}

export function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i += 8_192) text += String.fromCharCode(...bytes.subarray(i, i + 8_192));
  return btoa(text);
}

/** A body as it arrived. */
export function Body({ base64 }: { readonly base64: string }): JSX.Element {
  const bytes = useMemo(() => bytesOf(base64), [base64]);
  const text = useMemo(() => textOf(bytes), [bytes]);
  const [hex, setHex] = useState(text === null);
  if (bytes.length === 0) return <p class="faint">The body was empty.</p>;
  return (
    <>
      <div class="row-of">
        <button
          type="button"
          class="small quiet"
          aria-pressed={!hex}
          disabled={text === null}
          onClick={() => setHex(false)}
        >
          Text
        </button>
        <button type="button" class="small quiet" aria-pressed={hex} onClick={() => setHex(true)}>
          Hex
        </button>
        <span class="faint">{sizeText(bytes.length)}</span>
        {text === null ? <span class="faint">not UTF-8</span> : null}
      </div>
      <Value text={hex || text === null ? hexLines(bytes) : text} copied={text ?? base64} />
    </>
  );
}

/** null: not UTF-8. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

interface ResultProps {
  readonly table: SqlTable;
  /** The table that the rows are from, if it is only one; `changed` is called when it has got another column. */
  readonly of?: TableRef;
  readonly changed?: () => void;
  /** Of each row, if the rows are read again; otherwise its place is what it is. */
  readonly ids?: readonly string[];
  /** How long the statement took, if that is said. */
  readonly ms?: number | undefined;
}

/** A value that was opened. It stays what it was, whatever arrives meanwhile. */
interface Opened {
  readonly id: string;
  readonly column: string;
  readonly text: string;
  readonly isDocument: boolean;
}

/** Rows of a statement; a long cell opens below. */
export function Result({ table, of, changed, ids, ms }: ResultProps): JSX.Element {
  const [open, setOpen] = useState<Opened | null>(null);
  const [max, setMax] = useState(rowsStep);
  const { columns, rows } = table;
  const idOf = (row: number): string => ids?.[row] ?? String(row);
  const place = open === null ? -1 : rows.findIndex((_, row) => idOf(row) === open.id);
  return (
    <div class="result">
      <ResultHead table={table} ms={ms} />
      {columns.length === 0 ? null : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Rows">
          <table class="rows cells">
            <thead>
              <tr>
                {columns.map((column, i) => (
                  <th key={i} class={numbers.has(column.type) ? 'right' : undefined}>
                    <Text of={column.name} max={80} />{' '}
                    <span class="type">{typeNames[column.type] ?? ''}</span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, max).map((row, r) => (
                <tr key={idOf(r)} aria-current={r === place ? 'true' : undefined}>
                  {row.map((cell, c) => (
                    <td key={c} class={numbers.has(columns[c]?.type ?? 0) ? 'right mono' : 'mono'}>
                      <Cell
                        cell={cell}
                        open={(text) =>
                          setOpen({
                            id: idOf(r),
                            column: columns[c]?.name ?? '',
                            text,
                            isDocument: columns[c]?.type === jsonbType,
                          })
                        }
                      />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rows.length <= max ? null : (
        <button type="button" onClick={() => setMax(max + rowsStep)}>
          Show more ({max} of {rows.length} are shown)
        </button>
      )}
      {open === null ? null : (
        <Document
          key={`${open.id} ${open.column}`}
          open={open}
          where={place === -1 ? 'which has changed or left the list' : `row ${place + 1}`}
          close={() => setOpen(null)}
          of={of}
          changed={changed}
        />
      )}
    </div>
  );
}

/** How many rows there are, and what can be done with them. */
function ResultHead({ table, ms }: Pick<ResultProps, 'table' | 'ms'>): JSX.Element {
  const { columns, rows, command, more } = table;
  return (
    <div class="row-of result-head">
      <span class={ms === undefined ? 'faint grow' : 'grow'}>
        {ms === undefined ? null : <b class="good-words">✓ </b>}
        {more
          ? `The first ${rows.length} rows; there are more.`
          : columns.length === 0
            ? command
            : `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`}
        {ms === undefined ? null : <span class="faint"> in {ms} ms</span>}
      </span>
      {rows.length === 0 ? null : (
        <>
          <Copy text={() => tabbedOf(table)} label="Copy" />
          <Saved name="rows.csv" type="text/csv" text={() => csvOf(table)}>
            CSV
          </Saved>
          <Saved name="rows.json" type="application/json" text={() => jsonOf(table)}>
            JSON
          </Saved>
        </>
      )}
    </div>
  );
}

/** One row, its columns below each other: a document is read, not opened. */
export function OneRow({ table: { columns, rows } }: { readonly table: SqlTable }): JSX.Element {
  return (
    <dl class="one-row">
      {columns.map(({ name, type }, i) => {
        const cell = rows[0]?.[i] ?? null;
        return (
          <div key={i}>
            <dt>
              <Text of={name} max={80} />
            </dt>
            <dd class="mono">
              {cell === null ? (
                <span class="null">NULL</span>
              ) : type === jsonbType ? (
                <Value text={cell} />
              ) : (
                <Text of={cell} max={shortChars} />
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

interface DocumentProps {
  readonly open: Opened;
  readonly where: string;
  readonly close: () => void;
  readonly of: TableRef | undefined;
  readonly changed: (() => void) | undefined;
}

/** The value that was opened, scrolled to, because it stands below the rows. */
function Document({ open, where, close, of, changed }: DocumentProps): JSX.Element {
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    place.current?.scrollIntoView({ block: 'nearest' });
    place.current?.focus({ preventScroll: true });
  }, []);
  const { column, text, isDocument } = open;
  return (
    <section class="card opened" ref={place} tabIndex={-1} aria-label="Opened document">
      <div class="row-of">
        <h3 class="grow">
          <Text of={column} max={80} />, {where}
        </h3>
        <button type="button" class="small quiet" onClick={close}>
          Close
        </button>
      </div>
      <Value text={text} />
      {of !== undefined && isDocument ? (
        <MakeColumn table={of} from={column} text={text} done={() => changed?.()} />
      ) : null}
    </section>
  );
}

interface SavedProps {
  readonly name: string;
  readonly type: string;
  readonly text: () => string;
  readonly children: string;
}

/** Saves what is shown as a file, made in the browser. */
function Saved({ name, type, text, children }: SavedProps): JSX.Element {
  const save = (): void => {
    const url = URL.createObjectURL(new Blob([text()], { type }));
    const link = document.createElement('a');
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return (
    <button type="button" class="small quiet" onClick={save}>
      {children}
    </button>
  );
}

interface CellProps {
  readonly cell: string | null;
  readonly open: (text: string) => void;
}

function Cell({ cell, open }: CellProps): JSX.Element {
  if (cell === null) return <span class="null">NULL</span>;
  if (cell.length <= 60 && !/^[[{]/.test(cell)) return <Text of={cell} />;
  return (
    <button type="button" class="cell" title="Open" onClick={() => open(cell)}>
      <Text of={cell} max={cellChars} />
    </button>
  );
}
