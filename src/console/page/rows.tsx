/**
 * The rows of an endpoint's table: newest first, or by another column that an index begins with; from a value on, those that contain a text, a page
 * at a time. The first page is read again when a request has arrived. A large table without a fitting index is read only when somebody asks
 * for it. If the values are larger than an answer may be, their beginnings are shown.
 */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SqlTable } from '../api.ts';
import {
  indexFor,
  isCheap,
  orderOf,
  ownColumns,
  readOrder,
  readOrders,
  rowPage,
  rowsMax,
  scannedMax,
  startsOf,
} from '../row-pages.ts';
import type { RowOrder, RowPage, RowPlace } from '../row-pages.ts';
import { counted, optionText, sizeText } from '../visible-text.ts';
import type { TableRef } from '../statements.ts';
import { keyOf, lastSeen } from './live.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { Code, Listing, Skeleton, Sql, Wrong } from './components.tsx';
import { SearchField } from './find-text.tsx';
import { Text } from './text.tsx';
import { go, route } from './route.ts';
import { asFailure, Failure, look } from './server.ts';
import type { CallOptions } from './server.ts';
import { zoneName } from './time-zone.ts';
import { Result } from './value.tsx';

export function Rows({ of }: { readonly of: TableRef }): JSX.Element {
  const loaded = useRows(readOrder(of), 15_000);
  const orders = useRows(readOrders(of));
  return (
    <Listing loaded={loaded} empty={<>There is no such table.</>}>
      {([row]) =>
        row === undefined ? null : (
          <Ordered of={of} order={orderOf(row)} others={orders.value ?? []} changed={loaded.refresh} />
        )
      }
    </Listing>
  );
}

interface Props {
  readonly of: TableRef;
  readonly order: RowOrder;
  readonly others: readonly ResultRow[];
  readonly changed: () => void;
}

function Ordered(props: Props): JSX.Element {
  const { of, order, others } = props;
  const [whole, setWhole] = useState(false);
  const { query } = route.value;
  const by = query.get('by') ?? '';
  const chosen = others.some(({ name }) => name === by) ? by : null;
  const index = indexFor(of, order);
  if (whole || chosen !== null || isCheap(order)) return <Paged {...props} by={chosen} />;
  return (
    <>
      <Choice {...props} by={null} />
      <div class="empty">
        <p>
          Finding the newest rows would read the whole table, {sizeText(order.bytes)}:{' '}
          {index === null
            ? 'it has no column with the time of arrival, and no key that grows.'
            : 'no index has the order of their arrival. With this one it takes milliseconds:'}
        </p>
        {index === null ? null : <Code text={index} isSql />}
        <button type="button" onClick={() => setWhole(true)}>
          Read the whole table
        </button>
      </div>
    </>
  );
}

type Shown = Props & { readonly by: string | null };

/** What is read after an answer that was too large. */
const steps = [
  { starts: false, max: rowsMax },
  { starts: true, max: rowsMax },
  { starts: true, max: 5 },
  { starts: true, max: 1 },
] as const;

interface Found {
  readonly table: SqlTable;
  readonly ids: readonly string[];
  /** Where the next page begins; null: there is none. */
  readonly next: RowPlace | null;
  readonly looked: number;
  readonly step: number;
}

const none: Found = {
  table: { columns: [], rows: [], command: '', more: false },
  ids: [],
  next: null,
  looked: 0,
  step: 0,
};

async function read(
  of: TableRef,
  page: RowPage,
  first: number,
  options: Omit<CallOptions, 'body'>,
): Promise<Found> {
  for (let step = first; ; step++) {
    const { starts, max } = steps[step] ?? steps[0];
    const asked = { ...page, max };
    try {
      const { tables } = await look((starts ? startsOf : rowPage)(of, asked), options, zoneName.value);
      return foundIn(tables.at(-1) ?? none.table, asked, step);
    } catch (error) {
      const isLarge = error instanceof Failure && error.info.code === 'answer_too_large';
      if (!isLarge || step >= steps.length - 1) throw error;
    }
  }
}

function foundIn(table: SqlTable, { max, text, column }: RowPage, step: number): Found {
  const isSearch = text !== '' && column !== null;
  const hidden = isSearch ? 2 : 0;
  const width = table.columns.length - hidden;
  const looked = isSearch ? Number(table.rows.at(-1)?.[width + 1] ?? 0) : 0;
  const hits = isSearch ? table.rows.filter((row) => row[width] === 't') : table.rows;
  const rows = hits.slice(0, max);
  // Beyond the rows of this page there is another one; or, with a text, rows that nobody has looked at.
  const last =
    hits.length > max ? rows.at(-1) : isSearch && looked >= scannedMax ? table.rows.at(-1) : undefined;
  const place = last === undefined ? null : { value: last[1] ?? null, at: last[2] ?? '' };
  return {
    table: {
      ...table,
      columns: table.columns.slice(ownColumns, width),
      rows: rows.map((row) => row.slice(ownColumns, width)),
    },
    ids: rows.map(([id]) => id ?? ''),
    next: column === null ? null : place,
    looked: hits.length > max ? 0 : looked,
    step,
  };
}

function joined(before: Found, more: Found): Found {
  const known = new Set(before.ids);
  const fresh = more.ids.map((id) => !known.has(id));
  return {
    ...more,
    table: { ...more.table, rows: [...before.table.rows, ...more.table.rows.filter((_, i) => fresh[i])] },
    ids: [...before.ids, ...more.ids.filter((_, i) => fresh[i])],
    looked: before.looked + more.looked,
  };
}

/** What the address asks for. */
function pageOf({ order, by }: Shown): RowPage {
  const { query } = route.value;
  const [text, at] = [query.get('q') ?? '', query.get('at') ?? ''];
  const column = by ?? order.column;
  const direction = query.get('dir') === 'asc' ? 'asc' : 'desc';
  const from: RowPlace | null = at === '' || column === null ? null : { value: at, at: '' };
  return { column, direction, from, text, names: order.names, max: rowsMax };
}

interface Pages {
  readonly found: Found | null;
  readonly failure: Failure | null;
  readonly isReading: boolean;
  /** Reads the first page, or the one after these. */
  readonly ask: (after: Found | null, options: Omit<CallOptions, 'body'>) => void;
}

/** The value as it was a second ago at most: changed once a second, and to the last one in the end. */
function useOnceASecond(value: string): string {
  const [shown, setShown] = useState(value);
  const changedMs = useRef(-Infinity);
  useEffect(() => {
    if (value === shown) return undefined;
    const change = (): void => {
      changedMs.current = performance.now();
      setShown(value);
    };
    const timer = setTimeout(change, Math.max(0, changedMs.current + 1_000 - performance.now()));
    return () => clearTimeout(timer);
  }, [value, shown]);
  return shown;
}

/** `isLive`: the first page is read again when something has arrived, and from time to time. */
function usePages(of: TableRef, page: RowPage, isLive: boolean): Pages {
  const { column, direction, from, text, names } = page;
  const key = JSON.stringify([of, column, direction, from?.value ?? '', text, zoneName.value]);
  // Another column: what is open stays open until the rows are read again.
  const columns = JSON.stringify(names);
  const [state, setState] = useState<{ key: string; found: Found | null; pages: number }>({
    key: '',
    found: null,
    pages: 0,
  });
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isReading, setReading] = useState(false);
  const current = state.key === key ? state : { key, found: null, pages: 0 };
  const ask = (after: Found | null, options: Omit<CallOptions, 'body'>): void => {
    setReading(true);
    const next = after?.next ?? null;
    read(of, next === null ? page : { ...page, from: next }, after?.step ?? 0, options).then(
      (found) => {
        setReading(false);
        setFailure(null);
        setState((before) => {
          const pages = after === null ? 1 : before.pages + 1;
          return { key, found: after === null ? found : joined(after, found), pages };
        });
      },
      (error: unknown) => {
        if (options.signal?.aborted === true) return;
        setReading(false);
        setFailure(asFailure(error));
      },
    );
  };
  const seen = useOnceASecond(lastSeen.value.get(keyOf(of.schema, of.table))?.id ?? '');
  const told = useRef(seen);
  useEffect(() => {
    const ending = new AbortController();
    ask(null, { signal: ending.signal });
    return () => ending.abort();
  }, [key, columns]);
  useEffect(() => {
    if (!isLive || current.pages !== 1) return undefined;
    const ending = new AbortController();
    const again = (): void => ask(null, { signal: ending.signal, auto: true });
    if (seen !== told.current) again();
    told.current = seen;
    const timer = setInterval(() => document.hidden || again(), 15_000);
    return () => {
      clearInterval(timer);
      ending.abort();
    };
  }, [key, seen, isLive, current.pages]);
  return { found: current.found, failure, isReading, ask };
}

function Paged(props: Shown): JSX.Element {
  const { of, order, by, changed } = props;
  const page = pageOf(props);
  const { direction, text } = page;
  const isWhole = text === '' && page.from === null;
  // What arrives changes the first page only, and a search is asked for by a person.
  const isLive = isWhole && direction === 'desc' && (by !== null || isCheap(order));
  const { found, failure, isReading, ask } = usePages(of, page, isLive);
  const starts = (steps[found?.step ?? 0] ?? steps[0]).starts;
  return (
    <>
      <Choice {...props} />
      <Order page={page} by={by} starts={starts} />
      {failure === null ? null : <Wrong failure={failure} />}
      {found === null ? failure === null && <Skeleton /> : null}
      {found?.table.rows.length === 0 ? (
        <div class="empty">
          {isWhole ? 'No rows yet.' : found.next === null ? 'No row matches.' : 'None so far.'}
        </div>
      ) : null}
      {found !== null && found.table.rows.length > 0 ? (
        <Result
          table={found.table}
          ids={found.ids}
          {...(starts ? {} : { of })}
          changed={() => {
            changed();
            ask(null, { auto: true });
          }}
        />
      ) : null}
      {found !== null && found.looked > 0 ? (
        <p class="faint" role="status">
          Looked through {counted(found.looked, 'row')}
          {found.next === null ? ', all there are' : ''}.
        </p>
      ) : null}
      {found !== null && found.next !== null ? (
        <button type="button" disabled={isReading} onClick={() => ask(found, {})}>
          {isReading ? 'Reading …' : text === '' ? 'More rows' : 'Look further'}
        </button>
      ) : null}
      <Sql text={rowPage(of, page)} />
    </>
  );
}

interface OrderProps {
  readonly page: RowPage;
  readonly by: string | null;
  /** Only the beginnings of large values are shown. */
  readonly starts: boolean;
}

function Order({ page: { column, direction }, by, starts }: OrderProps): JSX.Element {
  const first = by === null ? 'Newest' : 'Greatest';
  return (
    <p class="faint">
      {column === null ? (
        'The newest transactions first: the table has no column with the time of arrival, and no key that grows.'
      ) : (
        <>
          {direction === 'desc' ? first : 'Smallest'} first, by <Text of={column} max={80} />.
        </>
      )}
      {starts ? ' Large values are cut: the rows are larger than 8 MiB.' : ''}
    </p>
  );
}

/** Which rows, by what: part of the address. */
function Choice({ order, others, by }: Shown): JSX.Element {
  const { parts, query } = route.value;
  const set = (change: Readonly<Record<string, string>>): void =>
    go(parts, { ...Object.fromEntries(query), ...change }, true);
  const [at, setAt] = useState(query.get('at') ?? '');
  const [text, setText] = useState(query.get('q') ?? '');
  const others_ = others.filter(({ name }) => name !== order.column);
  return (
    <form
      class="filters"
      role="search"
      aria-label="Which rows"
      onSubmit={(event) => {
        event.preventDefault();
        set({ at: at.trim(), q: text });
      }}
    >
      <SearchField label="Text in rows" placeholder="Text in rows" value={text} set={setText} />
      <select
        aria-label="Order"
        value={by ?? ''}
        onChange={(event) => set({ by: event.currentTarget.value, at: '' })}
      >
        <option value="">
          {order.column === null ? 'by transaction' : optionText(order.column).slice(0, 80)}
        </option>
        {others_.map(({ name }) => (
          <option key={name} value={name ?? ''}>
            {optionText(name ?? '').slice(0, 80)}
          </option>
        ))}
      </select>
      <select
        aria-label="Direction"
        value={query.get('dir') ?? ''}
        onChange={(event) => set({ dir: event.currentTarget.value })}
      >
        <option value="">newest, greatest first</option>
        <option value="asc">oldest, smallest first</option>
      </select>
      <input
        class="narrow"
        aria-label="Begin at"
        placeholder="from value"
        value={at}
        onInput={(event) => setAt(event.currentTarget.value)}
      />
      <button type="submit">Show</button>
    </form>
  );
}
