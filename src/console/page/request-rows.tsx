/**
 * The rows of a list of requests: only those in sight are in the document, and each is 32 px high, so a list may have thousands. A row is its
 * request's id, never its place.
 */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ListedRequest } from '../api.ts';
import type { RequestList } from './list-state.ts';
import { freshOf, isSelectable } from './list-state.ts';
import { Line, linesOf, Names } from './request-line.tsx';
import { me } from './server.ts';

const around = 12;

interface Props {
  readonly list: RequestList;
  readonly open: string;
  /** Beside a panel fewer columns fit. */
  readonly narrow: boolean;
  readonly hrefOf: (id: string) => string;
  readonly show: (id: string) => void;
  readonly senderName: (id: string) => string;
  /** Below the last one. */
  readonly below?: JSX.Element | null;
}

export function RequestRows(props: Props): JSX.Element {
  const { list, open, narrow, hrefOf, show, senderName, below = null } = props;
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: list.scrollTop, height: 900, row: 32 });
  const { rows, next, isLoading, away } = list.state.value;
  const selected = list.selected.value;
  const from = Math.max(0, Math.floor(view.top / view.row) - around);
  const until = Math.min(rows.length, Math.ceil((view.top + view.height) / view.row) + around);
  const keys = useMemo(() => keysOf(rows), [rows]);
  const place = rows.findIndex(({ id }) => id === open);
  const look = (): void => {
    const { current } = frame;
    if (current === null) return;
    list.scrollTop = current.scrollTop;
    const row = matchMedia('(max-width: 720px)').matches ? 64 : 32;
    setView({ top: current.scrollTop, height: current.clientHeight, row });
    const left = current.scrollHeight - current.scrollTop - current.clientHeight;
    if (left < view.height && next !== null && !isLoading) void list.more();
  };
  useLayoutEffect(() => {
    frame.current?.scrollTo({ top: list.scrollTop });
    look();
    // With one that is open beside it, the address says which.
    if (open === '') focusAgain(frame.current, list.focused);
    addEventListener('resize', look);
    return () => removeEventListener('resize', look);
  }, [list]);
  useEffect(() => look(), [rows.length, narrow]);
  useEffect(() => {
    if (frame.current !== null && place >= 0) showPlace(frame.current, place * view.row, view.row);
  }, [open, place]);
  return (
    <div
      class={`requests ${narrow ? 'beside' : ''}`}
      ref={frame}
      onScroll={look}
      tabIndex={0}
      role="region"
      aria-label="Requests"
    >
      <table class={linesOf(rows)}>
        <Head list={list} />
        <tbody>
          <Gap px={from * view.row} />
          {rows.slice(from, until).map((row, i) => (
            <Line
              key={keys[from + i]}
              row={row}
              isLost={!away && isLost(row)}
              fine={!narrow}
              href={hrefOf(row.id)}
              isOpen={row.id === open}
              isSelected={selected.has(row.id)}
              select={(on, far) => pick(list, row.id, on, far)}
              show={show}
              focus={() => {
                list.focused = row.id;
                if (open !== '' && open !== row.id) show(row.id);
              }}
              senderName={senderName}
            />
          ))}
          <Gap px={(rows.length - until) * view.row} />
        </tbody>
      </table>
      {isLoading && rows.length > 0 ? <p class="faint more">Reading older ones …</p> : null}
      {next === null ? below : null}
    </div>
  );
}

/** Scrolls no further than it must. */
function showPlace(frame: HTMLElement, top: number, height: number): void {
  const bottom = top + 2 * height;
  if (top < frame.scrollTop) frame.scrollTo({ top });
  else if (bottom > frame.scrollTop + frame.clientHeight)
    frame.scrollTo({ top: bottom - frame.clientHeight });
}

function Head({ list }: { readonly list: RequestList }): JSX.Element {
  const ids = list.selectable;
  const all = ids.length > 0 && ids.every((id) => list.selected.value.has(id));
  const pickAll = (): void => void (list.selected.value = new Set(all ? [] : ids));
  return (
    <thead>
      <tr>
        <th class="pick">
          <input type="checkbox" aria-label="Select all that are shown" checked={all} onChange={pickAll} />
        </th>
        <Names />
      </tr>
    </thead>
  );
}

/** A refused request gets another id when it is kept, within a second; its row stays the same, or a click into it would be lost. */
function keysOf(rows: readonly ListedRequest[]): readonly string[] {
  const counts = new Map<string, number>();
  return rows.map(({ arrivedAtMs, schema, table, address }) => {
    const twin = `${arrivedAtMs} ${address} ${schema} ${table}`;
    const n = counts.get(twin) ?? 0;
    counts.set(twin, n + 1);
    return `${twin} ${n}`;
  });
}

function focusAgain(frame: HTMLElement | null, id: string): void {
  if (id === '' || document.activeElement !== document.body) return;
  const rows = [...(frame?.querySelectorAll<HTMLElement>('[data-row]') ?? [])];
  rows.find((row) => row.dataset['row'] === id)?.focus({ preventScroll: true });
}

function Gap({ px }: { readonly px: number }): JSX.Element | null {
  return px <= 0 ? null : (
    <tr aria-hidden="true" class="gap" style={{ height: `${px}px` }}>
      <td />
    </tr>
  );
}

/** `far`: all between this one and the one that was picked last. */
let lastPicked = '';
function pick(list: RequestList, id: string, on: boolean, far: boolean): void {
  const ids = list.selectable;
  const [a, b] = [ids.indexOf(lastPicked), ids.indexOf(id)];
  lastPicked = id;
  if (!far || a < 0) list.select([id], on);
  else list.select(ids.slice(Math.min(a, b), Math.max(a, b) + 1), true);
}

/** A refused request is kept within seconds. */
const isLost = (row: ListedRequest): boolean =>
  !isSelectable(row) &&
  me.value?.keptCodes.includes(row.code) === true &&
  Date.now() - row.arrivedAtMs > 5_000;

/** What waits while somebody looks elsewhere in the list. It stands in the page's head: above the list it would move the rows under the pointer. */
export function Fresh({
  list,
  renew,
}: {
  readonly list: RequestList;
  readonly renew: () => void;
}): JSX.Element | null {
  const fresh = freshOf(list);
  if (fresh === '') return null;
  return (
    <button type="button" class="fresh-bar" data-key="." onClick={renew}>
      {fresh} new {fresh === '1' ? 'request' : 'requests'} <kbd>.</kbd>
    </button>
  );
}
