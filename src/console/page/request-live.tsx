/** Whether a list of requests is renewed as they arrive; and its newest lines on other pages. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { resultWords } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { freshOf, listOf, useRenewal } from './list-state.ts';
import type { RequestList } from './list-state.ts';
import { connected } from './live.ts';
import { Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { Line, linesOf, Names } from './request-line.tsx';
import { go, to } from './route.ts';
import { useSenders } from './senders.ts';
import { notReady } from './server.ts';
import { SearchField, useTyped } from './find-text.tsx';

interface LiveProps {
  readonly list: RequestList;
  /** Why the list is not renewed; null: it is. */
  readonly paused: string | null;
}

/** Whether requests can be accepted at this second, and whether the list is renewed. */
export function Live({ list, paused }: LiveProps): JSX.Element {
  const fresh = paused === null ? '' : freshOf(list);
  const [dot, words] = !connected.value
    ? ['', 'not connected, retrying']
    : notReady.value !== null
      ? [
          'later',
          'live, but the database is away: kept on disk where an endpoint allows it, otherwise told to come again',
        ]
      : paused !== null
        ? ['later', fresh === '' ? paused : `${paused} · ${fresh} new`]
        : ['on', 'live'];
  return (
    <span class="live-state grow" role="status" title={words}>
      <span class={`dot ${dot}`} /> <Text of={words} max={240} />
    </span>
  );
}

interface LatestProps {
  /** Of which requests; of one endpoint, they can be narrowed. */
  readonly address: ListAddress;
  /** Of the page: takes what was chosen. Absent: nothing can be chosen. */
  readonly set?: (change: Partial<ListAddress>) => void;
  readonly title?: JSX.Element;
  /** Shown while there are none. */
  readonly empty: JSX.Element;
  readonly max: number;
}

/** The newest requests as they arrive; each leads to the list of all, with itself open. */
export function LatestRequests({ address, set, title, empty, max }: LatestProps): JSX.Element {
  const [isPaused, setPaused] = useState(false);
  const isOne = address.table !== '';
  const list = listOf(address);
  const { nameOf } = useSenders();
  useRenewal(list, isPaused);
  const { rows, failure, loaded } = list.state.value;
  return (
    <section class={`latest ${isOne ? 'of-one' : ''}`}>
      <div class="row-of bar">
        {title}
        {set === undefined ? null : <Narrow address={address} set={set} />}
        <Live list={list} paused={isPaused ? 'paused' : null} />
        <button type="button" class="small" onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </button>
        <a class="button small" href={to(['requests'], { ...address })}>
          All requests
        </a>
      </div>
      {failure === null ? null : <Wrong failure={failure} />}
      {loaded && rows.length === 0 ? (
        <div class="empty">{empty}</div>
      ) : (
        <table class={linesOf(rows)} aria-label="Requests as they arrive">
          <thead>
            <tr>
              <Names />
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, max).map((row) => (
              <Line
                key={row.id}
                row={row}
                fine={isOne}
                href={to(['requests'], { ...address, open: row.id })}
                show={(id) => go(['requests'], { ...address, open: id })}
                senderName={nameOf}
              />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** A text, and what became of them. */
function Narrow({
  address: { q, result },
  set,
}: {
  readonly address: ListAddress;
  readonly set: (change: Partial<ListAddress>) => void;
}): JSX.Element {
  const [typed, setTyped] = useTyped(q, (text) => set({ q: text }));
  return (
    <>
      <SearchField
        label="Search its requests"
        placeholder="Text in body or headers"
        value={typed}
        set={setTyped}
      />
      <div class="segments" role="group" aria-label="What became of them">
        {['', 'stored', 'refused'].map((it) => (
          <button
            key={it}
            type="button"
            class="small"
            aria-pressed={it === result}
            onClick={() => set({ result: it })}
          >
            {resultWords[it]}
          </button>
        ))}
      </div>
    </>
  );
}
