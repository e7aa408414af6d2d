/**
 * All requests: those that this Headgate remembers and those that the database knows, in one list with filters, and one of them beside it. The
 * address holds filters and the open request; going back brings back the place, the focus and the selection.
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ListCounts } from '../api.ts';
import { BulkBar } from './bulk-bar.tsx';
import { addressOf, filterOf } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { listOf, useRenewal } from './list-state.ts';
import type { RequestList } from './list-state.ts';
import { Skeleton, Sql, Wrong } from './components.tsx';
import { ListChart } from './list-chart.tsx';
import { NoRequests } from './no-requests.tsx';
import { ReasonChips } from './reasons.tsx';
import { numberOf, RequestFilters } from './request-filters.tsx';
import { Views } from './views.tsx';
import { OlderRows } from './table-rows.tsx';
import { Live } from './request-live.tsx';
import { RequestPanel } from './request-panel.tsx';
import { Fresh, RequestRows } from './request-rows.tsx';
import { clockOf, whenText } from './request-time.tsx';
import { RetryProgress } from './retry-progress.tsx';
import { resultOf } from '../request-filter.ts';
import { go, route, to } from './route.ts';
import { ShareList, sqlOf } from './share.tsx';
import { useSenders } from './senders.ts';

export function Requests({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const address = addressOf(query);
  const open = query.get('open') ?? '';
  const list = listOf(address);
  const { all: senders, nameOf } = useSenders();
  const [started, setStarted] = useState(0);
  const filter = { ...address } as Record<string, string>;
  const set = (change: Partial<ListAddress>): void => go(['requests'], { ...address, ...change });
  const show = (id: string): void => go(['requests'], { ...address, open: id }, open !== '');
  const waits = useWaits(list, open);
  useRenewal(list, waits);
  const { rows, counts, next } = list.state.value;
  const place = rows.findIndex(({ id }) => id === open);
  const renew = (): void => {
    list.scrollTop = 0;
    document.querySelector('.requests')?.scrollTo({ top: 0 });
    void list.renew(false);
  };
  return (
    <div class={`requests-screen ${open === '' ? '' : 'with-panel'}`}>
      <div class="list-part">
        <header class="head">
          <h1>Requests</h1>
          <Live list={list} paused={waits ? whyPaused(list) : null} />
          {waits ? <Fresh list={list} renew={renew} /> : null}
          <Views address={address} />
          <ShareList address={address} />
        </header>
        <RequestFilters address={address} counts={counts} senders={senders} set={set} />
        {address.result === 'refused' ? <ReasonChips address={address} set={set} /> : null}
        <ListChart address={address} counts={counts} set={set} />
        <Found
          list={list}
          address={address}
          open={open}
          set={set}
          show={show}
          renew={renew}
          nameOf={nameOf}
        />
        <RetryProgress started={started} list={list} />
        <BulkBar
          key={JSON.stringify(address)}
          list={list}
          filter={filterOf(address, Date.now())}
          senderName={nameOf}
          started={() => setStarted(started + 1)}
        />
        <Known counts={counts} address={address} />
      </div>
      {open === '' ? null : (
        <RequestPanel
          key={open}
          id={open}
          place={place}
          total={counts?.whole === true ? numberOf(counts, address.result) : null}
          count={rows.length}
          more={next !== null}
          hrefOf={(id) => to(['requests', id], filter)}
          step={(by) => show(rows[place + by]?.id ?? open)}
          canStep={(by) => place >= 0 && rows[place + by] !== undefined}
          close={() => close(filter, open)}
          senderName={nameOf}
          changed={() => list.renewUntilTried(true)}
        />
      )}
    </div>
  );
}

const whyPaused = ({ selected }: RequestList): string =>
  selected.value.size > 0 ? 'paused while you select' : 'paused while you look';

function close(filter: Readonly<Record<string, string>>, open: string): void {
  go(['requests'], filter, true);
  requestAnimationFrame(() => focusRow(open));
}

function focusRow(id: string): void {
  // Another one may have been opened meanwhile.
  if (route.value.query.has('open')) return;
  const all = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  all.find((row) => row.dataset['row'] === id)?.focus();
}

interface FoundProps {
  readonly list: RequestList;
  readonly address: ListAddress;
  readonly open: string;
  readonly set: (change: Partial<ListAddress>) => void;
  readonly show: (id: string) => void;
  readonly renew: () => void;
  readonly nameOf: (id: string) => string;
}

/** The lines, or why there are none. */
function Found({ list, address, open, set, show, renew, nameOf }: FoundProps): JSX.Element {
  const { rows, failure, isLoading, loaded, away, lookedThrough, next } = list.state.value;
  const older =
    loaded && !away ? <Older key={JSON.stringify(address)} list={list} address={address} /> : null;
  return (
    <>
      {failure === null ? null : (
        <div class="row-of">
          <Wrong failure={failure} />
          <button type="button" onClick={renew}>
            Try again
          </button>
        </div>
      )}
      {away ? (
        <p class="strip" role="status">
          The database does not answer: only what this Headgate remembers is shown. Refused requests of before
          come back with it.
        </p>
      ) : null}
      {!loaded ? (
        failure === null ? (
          <Skeleton />
        ) : null
      ) : rows.length === 0 && next === null ? (
        <>
          <NoRequests address={address} nameOf={nameOf} set={set} />
          {older}
        </>
      ) : (
        <RequestRows
          list={list}
          open={open}
          narrow={open !== ''}
          hrefOf={(id) => to(['requests'], { ...address, open: id })}
          show={show}
          senderName={nameOf}
          below={older}
        />
      )}
      {lookedThrough === null || next === null ? null : (
        <p class="looked" role="status">
          Looked through {rows.length === 0 ? 'the newest ' : ''}requests back to {clockOf(next[0])}.{' '}
          <button type="button" class="small" disabled={isLoading} onClick={() => void list.more()}>
            Look further
          </button>
        </p>
      )}
    </>
  );
}

/** Accepted requests that are not remembered any more, of one endpoint, if the filters are about nothing that a row does not tell. */
function Older({
  list,
  address,
}: {
  readonly list: RequestList;
  readonly address: ListAddress;
}): JSX.Element | null {
  const { schema, table, result, code, cause, sender, event, stored, checked, q } = address;
  const { forgottenMs, rows } = list.state.value;
  const [{ fromMs, untilMs }] = useState(() => filterOf(address, Date.now()));
  const more = code + cause + sender + event + stored + checked + q;
  if (table === '' || more !== '' || !['', 'stored'].includes(result) || forgottenMs === null) return null;
  const accepted = rows.filter((row) => ['stored', 'spooled'].includes(resultOf(row)));
  const listed = new Set(accepted.map(({ arrivedAtMs }) => arrivedAtMs));
  const beforeMs = untilMs === 0 ? forgottenMs : Math.min(forgottenMs, untilMs);
  return fromMs < beforeMs ? (
    <OlderRows
      of={{ schema, table }}
      pages={list.earlier}
      listed={listed}
      beforeMs={beforeMs}
      fromMs={fromMs}
    />
  ) : null;
}

/** New lines wait while somebody looks elsewhere in the list: it is scrolled, a row has the focus, is selected or open. */
function useWaits(list: RequestList, open: string): boolean {
  const [, look] = useState(0);
  useEffect(() => {
    const again = (): void => look((n) => n + 1);
    const frame = document.querySelector('.requests');
    document.addEventListener('focusin', again);
    document.addEventListener('focusout', again);
    frame?.addEventListener('scroll', again);
    return () => {
      document.removeEventListener('focusin', again);
      document.removeEventListener('focusout', again);
      frame?.removeEventListener('scroll', again);
    };
  }, [list, list.state.value.loaded]);
  const isFocused = (document.activeElement?.closest('.lines') ?? null) !== null;
  return open !== '' || isFocused || list.scrollTop > 0 || list.selected.value.size > 0;
}

/** What is kept, and since when. */
function Known({
  counts,
  address,
}: {
  readonly counts: ListCounts | null;
  readonly address: ListAddress;
}): JSX.Element {
  const sql = sqlOf(address);
  return (
    <footer class="known">
      {counts === null ? null : <Since counts={counts} address={address} />}
      {sql === null ? null : <Sql text={sql} />}
    </footer>
  );
}

function Since({
  counts: { rememberedSinceMs: memory, refusedSinceMs: refused },
  address,
}: {
  readonly counts: ListCounts;
  readonly address: ListAddress;
}): JSX.Element {
  return (
    <p class="faint">
      Refused: kept 7 days unless set otherwise
      {refused === null ? ', none yet' : `, since ${whenText(refused)}`}. Accepted: the last 2,000 of each
      process
      {memory === null ? ', none yet' : `, since ${whenText(memory)}`}.{' '}
      {address.table === '' ? (
        <a href={to(['endpoints'])}>Older ones are rows of their tables</a>
      ) : (
        <a href={to(['endpoint', address.schema, address.table, 'rows'])}>
          Older ones: the rows of the table
        </a>
      )}
    </p>
  );
}
