/**
 * Refused requests of all tables of the role: filters, which are part of the address, and a retry of all that they match
 * (`headgate.rejected_requests`). A page has a hundred requests, and the next one begins after its last id.
 */
import type { JSX } from 'preact';
import { sizeText } from '../shown.ts';
import { listRefused, noFilter, pageRows } from '../statements.ts';
import type { RefusedFilter } from '../statements.ts';
import { useRows } from './load.ts';
import type { Row } from './load.ts';
import { Ago, Badge, Listing, Sql, Text, timeOf } from './parts.tsx';
import { Outcome, RetryAll } from './retry-all.tsx';
import { go, to } from './route.ts';

function filterOf(query: URLSearchParams): RefusedFilter {
  const names = Object.keys(noFilter) as (keyof RefusedFilter)[];
  return Object.fromEntries(names.map((name) => [name, query.get(name) ?? ''])) as unknown as RefusedFilter;
}

export function Refused({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const filter = filterOf(query);
  const before = query.get('before') ?? '';
  const sql = listRefused(filter, before);
  const loaded = useRows(sql, before === '' ? 5_000 : 0);
  const isFiltered = Object.values(filter).some((value) => value !== '');
  const last = loaded.value?.at(-1)?.['id'] ?? '';
  return (
    <>
      <header class="head">
        <h1>Refused</h1>
      </header>
      <Filters filter={filter} />
      <Listing
        loaded={loaded}
        empty={
          isFiltered ? (
            <>
              Nothing matches. <a href={to(['refused'])}>Clear the filters</a>
            </>
          ) : (
            <>Nothing was refused. Refused requests appear here with the reason, and can be retried.</>
          )
        }
      >
        {(rows) => <Requests rows={rows} />}
      </Listing>
      <div class="row-of">
        {before === '' ? null : <a href={to(['refused'], { ...filter })}>Newest</a>}
        {loaded.value?.length === pageRows ? (
          <a href={to(['refused'], { ...filter, before: last })}>Older</a>
        ) : null}
      </div>
      {loaded.value === null || loaded.value.length === 0 ? null : <RetryAll filter={filter} />}
      <Sql text={sql} />
    </>
  );
}

function Filters({ filter }: { readonly filter: RefusedFilter }): JSX.Element {
  const set = (name: keyof RefusedFilter, value: string): void =>
    go(['refused'], { ...filter, [name]: value }, true);
  const field = (name: 'schema' | 'table' | 'code', label: string) => (
    <input
      class="narrow"
      placeholder={label}
      aria-label={label}
      value={filter[name]}
      onChange={(event) => set(name, event.currentTarget.value)}
    />
  );
  return (
    <div class="filters" role="search">
      <input
        data-search
        type="search"
        placeholder="Search body, reason, address /"
        aria-label="Search in body, reason, path and address"
        value={filter.text}
        onChange={(event) => set('text', event.currentTarget.value)}
      />
      {field('table', 'table')}
      {field('code', 'code')}
      <select
        aria-label="Since"
        value={filter.since}
        onChange={(event) => set('since', event.currentTarget.value)}
      >
        <option value="">any time</option>
        <option value="1h">last hour</option>
        <option value="24h">last 24 hours</option>
        <option value="7d">last 7 days</option>
      </select>
      <select
        aria-label="Checked"
        value={filter.checked}
        onChange={(event) => set('checked', event.currentTarget.value)}
      >
        <option value="">checked or not</option>
        <option value="yes">VALIDATE accepted it</option>
        <option value="no">VALIDATE refused it</option>
      </select>
    </div>
  );
}

function Requests({ rows }: { readonly rows: readonly Row[] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Refused requests">
      <table class="rows">
        <thead>
          <tr>
            <th>when</th>
            <th>table</th>
            <th>answer</th>
            <th>why</th>
            <th class="right">body</th>
            <th>from</th>
            <th>retry</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row['id']} onClick={() => go(['refused', row['id'] ?? ''])}>
              <td>
                <a data-row href={to(['refused', row['id'] ?? ''])}>
                  <Ago at={timeOf(row['received_at'] ?? null)} />
                </a>
              </td>
              <td>
                <Text of={row['table_name'] ?? ''} max={80} />
              </td>
              <td class="tight">
                <Badge kind="bad">{row['status']}</Badge> {row['code']}
              </td>
              <td>
                <Text of={row['reason'] ?? ''} max={160} />
              </td>
              <td class="right mono">
                {row['body_bytes'] === null ? 'not read' : sizeText(Number(row['body_bytes']))}
              </td>
              <td class="mono">{row['remote_address']}</td>
              <td>
                <Outcome outcome={row['retry_outcome'] ?? null} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
