/** Instead of a list of requests: that there is none yet, or none that matches, and where else to look. */
import type { JSX } from 'preact';
import { findEndpoints } from '../endpoint-list.ts';
import { isFiltered, noAddress, wordsOf } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { useRows } from './load.ts';
import { to } from './route.ts';
import { Text } from './text.tsx';

export function NoRequests({
  address,
  nameOf,
  set,
}: {
  readonly address: ListAddress;
  readonly nameOf: (id: string) => string;
  readonly set: (change: Partial<ListAddress>) => void;
}): JSX.Element {
  if (!isFiltered(address))
    return (
      <div class="empty">
        No requests yet since Headgate started. They appear here within a second; accepted ones of before are
        rows of <a href={to(['endpoints'])}>their tables</a>.
      </div>
    );
  const timed = address.range + address.from + address.until !== '';
  return (
    <div class="empty">
      <p>
        <b>No request matches.</b>
      </p>
      <p>
        <Text of={wordsOf(address, nameOf)} max={300} />
      </p>
      {address.q === '' || ['refused', 'later'].includes(address.result) ? null : (
        <p>
          Bodies of accepted requests are not looked through here: they are rows.{' '}
          {address.table === '' ? (
            <LookInRows q={address.q} />
          ) : (
            <a href={to(['endpoint', address.schema, address.table, 'rows'], { q: address.q })}>
              Look in the rows of <Text of={address.table} max={63} />
            </a>
          )}
        </p>
      )}
      <p class="row-of">
        {timed ? (
          <button type="button" onClick={() => set({ range: '', from: '', until: '' })}>
            Any time
          </button>
        ) : null}
        <button type="button" onClick={() => set(noAddress)}>
          Clear all
        </button>
      </p>
    </div>
  );
}

/** How many endpoints are named to be searched one by one. */
const searchedMax = 5;

function LookInRows({ q }: { readonly q: string }): JSX.Element {
  const found = useRows(findEndpoints('', searchedMax + 1)).value ?? [];
  const names = found.map((row) => ({ schema: row['nspname'] ?? '', table: row['relname'] ?? '' }));
  return (
    <>
      Look in those of{' '}
      {names.slice(0, searchedMax).map(({ schema, table }, i) => (
        <>
          {i === 0 ? '' : ', '}
          <a key={`${schema}.${table}`} href={to(['endpoint', schema, table, 'rows'], { q })}>
            <Text of={schema === 'public' ? table : `${schema}.${table}`} max={127} />
          </a>
        </>
      ))}
      {names.length <= searchedMax ? null : (
        <>
          {' '}
          or <a href={to(['endpoints'])}>another endpoint</a>
        </>
      )}
      .
    </>
  );
}
