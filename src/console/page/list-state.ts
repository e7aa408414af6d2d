/**
 * The list of requests that is on the screen, and those that were: rows, place, selection. A list is contiguous: its newest page is read again
 * while nobody looks elsewhere in it, older pages are added below, and what arrives meanwhile is only counted.
 */
import { signal } from '@preact/signals';
import type { Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ListAnswer, ListCounts, ListedRequest } from '../api.ts';
import { isKept, matchesLine, resultOf } from '../request-filter.ts';
import { filterOf } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { lines, skipped } from './live.ts';
import { asFailure, call } from './server.ts';
import type { Failure } from './server.ts';

interface ListState {
  readonly rows: readonly ListedRequest[];
  /** null: there are no older ones. */
  readonly next: ListAnswer['next'];
  readonly lookedThrough: number | null;
  readonly away: boolean;
  readonly counts: ListCounts | null;
  /** As it was when the list was counted first: later ones come into the list. */
  readonly forgottenMs: number | null;
  readonly failure: Failure | null;
  readonly isLoading: boolean;
  /** The last live line when the newest page was read. */
  readonly seen: number;
  /** … and how many lines had not been told until then. */
  readonly untold: number;
  readonly loaded: boolean;
}

const empty: ListState = {
  rows: [],
  next: null,
  lookedThrough: null,
  away: false,
  counts: null,
  forgottenMs: null,
  failure: null,
  isLoading: false,
  seen: 0,
  untold: 0,
  loaded: false,
};

/** A tab keeps so many lists, and so many rows of each. */
const listsMax = 8;
const rowsMax = 5_000;
const countsMs = 10_000;
/** How long outcomes of retries are waited for: those of a process that has ended never come. */
const retriesMs = 60_000;

export class RequestList {
  readonly state: Signal<ListState> = signal(empty);
  readonly selected: Signal<ReadonlySet<string>> = signal(new Set<string>());
  /** How many pages of what is forgotten were asked for (table-rows.tsx). */
  readonly earlier: Signal<number> = signal(0);
  readonly address: ListAddress;
  /** Where it was scrolled to, and which row had the focus. */
  scrollTop = 0;
  focused = '';
  #isChanged = false;
  #retriedMs = -Infinity;
  #countedMs = -Infinity;
  #asking: AbortController | null = null;

  constructor(address: ListAddress) {
    this.address = address;
  }

  /** Reads the newest page again; `auto`: not on behalf of the user. */
  async renew(auto: boolean): Promise<void> {
    if (this.#asking !== null && auto) return;
    this.#isChanged = false;
    const counts = performance.now() - this.#countedMs >= countsMs || !auto;
    const seen = lines.value.at(-1)?.n ?? 0;
    const untold = skipped.value;
    await this.#ask({ from: null, counts }, auto, (answer) => {
      if (counts) this.#countedMs = performance.now();
      return {
        ...answer,
        counts: answer.counts ?? this.state.value.counts,
        forgottenMs: this.state.value.forgottenMs ?? answer.counts?.forgottenMs ?? null,
        failure: null,
        isLoading: false,
        seen,
        untold,
        loaded: true,
      };
    });
  }

  /**
   * Reads the newest page again now, and from time to time until none of its requests waits for its retry (useRenewal). Of a retry of all that match,
   * RetryProgress tells `changed`.
   */
  renewUntilTried(auto: boolean): void {
    this.#retriedMs = performance.now();
    void this.renew(auto);
  }

  /** Requests of it have changed in the database: useRenewal reads it again. `isLast`: nothing follows, so it is counted as well. */
  changed(isLast: boolean): void {
    this.#isChanged = true;
    if (isLast) this.#countedMs = -Infinity;
  }

  /** Whether the newest page has changed, as far as it is known here. */
  get isOutdated(): boolean {
    const { rows, untold } = this.state.value;
    const isRetrying =
      performance.now() - this.#retriedMs < retriesMs &&
      rows.some(({ retry }) => retry === 'waiting' || retry === 'running');
    return this.#isChanged || isRetrying || newOf(this) > 0 || skipped.value > untold;
  }

  /** Adds the next older page. */
  async more(): Promise<void> {
    const { next, isLoading, rows } = this.state.value;
    if (next === null || isLoading || rows.length >= rowsMax) return;
    await this.#ask({ from: next, counts: false }, false, (answer) => {
      const known = new Set(rows.map(({ id }) => id));
      return {
        ...this.state.value,
        rows: [...rows, ...answer.rows.filter(({ id }) => !known.has(id))],
        next: rows.length + answer.rows.length >= rowsMax ? null : answer.next,
        lookedThrough: answer.lookedThrough,
        away: answer.away,
        failure: null,
        isLoading: false,
      };
    });
  }

  select(ids: readonly string[], on: boolean): void {
    const next = new Set(this.selected.value);
    for (const id of ids)
      if (on) next.add(id);
      else next.delete(id);
    this.selected.value = next;
  }

  /** Nothing can be done with a request that was refused and not kept. */
  get selectable(): readonly string[] {
    return this.state.value.rows.filter(isSelectable).map(({ id }) => id);
  }

  /** Aborts what is being read: the list is left. */
  leave(): void {
    this.#asking?.abort();
    this.#asking = null;
    if (this.state.value.isLoading) this.state.value = { ...this.state.value, isLoading: false };
  }

  async #ask(
    part: { from: ListAnswer['next']; counts: boolean },
    auto: boolean,
    next: (answer: ListAnswer) => ListState,
  ): Promise<void> {
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    if (!auto) this.state.value = { ...this.state.value, isLoading: true };
    try {
      const body = { filter: filterOf(this.address, Date.now()), ...part };
      const answer = await call<ListAnswer>('requests', { body, signal: asking.signal, auto });
      if (this.#asking === asking) this.state.value = next(answer);
    } catch (error) {
      if (asking.signal.aborted) return;
      this.state.value = { ...this.state.value, failure: asFailure(error), isLoading: false };
    } finally {
      if (this.#asking === asking) this.#asking = null;
    }
  }
}

export const isSelectable = (row: ListedRequest): boolean => isKept(row.id) || resultOf(row) !== 'refused';

const lists = new Map<string, RequestList>();

/** The list of this address: as it was left, if it is still known. */
export function listOf(address: ListAddress): RequestList {
  const key = JSON.stringify(address);
  const known = lists.get(key);
  if (known !== undefined) {
    lists.delete(key);
    lists.set(key, known);
    return known;
  }
  const list = new RequestList(address);
  lists.set(key, list);
  const [oldest] = lists.keys();
  if (lists.size > listsMax && oldest !== undefined) lists.delete(oldest);
  return list;
}

/** Another session must not see them. */
export const forgetLists = (): void => lists.clear();

/** How many matching ones have arrived since the newest page was read; a text, sender or event is not compared. */
function newOf({ address, state: { value } }: RequestList): number {
  const filter = { ...filterOf(address, Date.now()), text: '', sender: '', event: '' };
  const newestMs = value.rows[0]?.arrivedAtMs ?? 0;
  return lines.value.filter(
    (line) =>
      line.n > value.seen &&
      !(line.isRemembered && line.arrivedAtMs <= newestMs) &&
      matchesLine(line, filter),
  ).length;
}

/** How many have arrived, `+` if not all were told. */
export function freshOf(list: RequestList): string {
  const fresh = newOf(list);
  const { state } = list;
  return fresh === 0 ? '' : `${fresh}${skipped.value > state.value.untold ? '+' : ''}`;
}

/** How often the newest page is read again while something arrives, and otherwise. */
const renewMs = 1_000;
const idleMs = 15_000;

/** `waits`: nothing changes below the pointer of somebody who looks. */
export function useRenewal(list: RequestList, waits: boolean): void {
  const waiting = useRef(waits);
  waiting.current = waits;
  useEffect(() => {
    // As it was left, if somebody had looked elsewhere in it.
    if (!list.state.value.loaded || !(list.scrollTop > 0 || waiting.current))
      void list.renew(list.state.value.loaded);
    let lastMs = performance.now();
    const timer = setInterval(() => {
      if (document.hidden || waiting.current) return;
      const since = performance.now() - lastMs;
      if (since < idleMs && !list.isOutdated) return;
      lastMs = performance.now();
      void list.renew(true);
    }, renewMs);
    return () => {
      clearInterval(timer);
      list.leave();
    };
  }, [list]);
}
