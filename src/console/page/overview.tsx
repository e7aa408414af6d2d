/**
 * The overview: endpoints that need somebody, figures and a chart of a time range (`headgate.traffic`), requests as they arrive, and why
 * requests were refused (`headgate.rejected_requests`). Without an endpoint: how to create one.
 */
import type { JSX } from 'preact';
import { countTables, showGaps } from '../endpoint-list.ts';
import { noAddress } from '../list-address.ts';
import { briefReason, reasonFilter } from '../outcome-summary.ts';
import { digitsText } from '../visible-text.ts';
import { listReasons } from '../statements.ts';
import { Name } from './address.tsx';
import { FirstSteps } from './first-steps.tsx';

import { useRows } from './load.ts';
import { needing, needs } from './endpoint-problems.ts';
import type { ResultRow } from './load.ts';
import { Ago, Badge, isUnused, lackingToCreate, Listing, NewEndpoint } from './components.tsx';
import { Text } from './text.tsx';
import { timeOf } from '../request-rows.ts';
import { RangeMenu, rangeOf, sumsOf, Traffic, useCompared, useTraffic } from './time-range.tsx';
import { LatestRequests } from './request-live.tsx';
import { KeptOf } from './kept-of.tsx';
import { route, to } from './route.ts';
import { me } from './server.ts';
import { gapWords, troublesOf } from './endpoint-problem.tsx';

export function Overview(): JSX.Element {
  const range = rangeOf(route.value.query, '24h');
  const traffic = useTraffic(null, range);
  const compared = useCompared(null, range);
  const counted = useRows(countTables, 15_000);
  const isNew = isUnused(counted.failure);
  const tables = isNew ? '0' : (counted.value?.[0]?.['all'] ?? null);
  return (
    <>
      <header class="head">
        <h1>Overview</h1>
        {tables === '0' ? null : <RangeMenu range={range} />}
        <NewEndpoint />
      </header>
      {tables === '0' ? (
        <FirstSteps />
      ) : (
        <>
          <Needs />
          <Figures rows={traffic.value} tables={tables} compared={compared.note} />
          <Traffic of={null} range={range} loaded={traffic} compared={{ ...compared, note: null }} />
        </>
      )}
      {isNew || (tables === '0' && lackingToCreate() !== null) ? null : (
        <div class="two">
          <section class="card wide">
            <LatestRequests
              address={noAddress}
              title={<h2>Latest requests</h2>}
              max={10}
              empty={<>No requests yet since Headgate started. They appear here within a second.</>}
            />
          </section>
          <Reasons />
        </div>
      )}
    </>
  );
}

/** Endpoints into which nothing gets, of which most signatures fail, or that lack what their sender's log has. */
function Needs(): JSX.Element | null {
  const rows = needs.value;
  const n = needing();
  if (n === 0) return null;
  return (
    <section class="card needs">
      <h2>
        <span class="dot bad" />{' '}
        {n === 1
          ? 'One endpoint needs'
          : n === 2
            ? 'Two endpoints need'
            : `${digitsText(String(n))} endpoints need`}{' '}
        you
        {n > rows.length ? (
          <>
            {' '}
            <a class="more" href={to(['endpoints'], { show: 'need' })}>
              All of them
            </a>
          </>
        ) : null}
      </h2>
      <ul class="list">
        {rows.map((row) => (
          <Need key={`${row['nspname']}.${row['relname']}`} row={row} />
        ))}
      </ul>
    </section>
  );
}

function Need({ row }: { readonly row: ResultRow }): JSX.Element {
  const [schema, table] = [row['nspname'] ?? '', row['relname'] ?? ''];
  const troubles = troublesOf(null, row);
  const hasGap = troubles.some(({ word }) => gapWords.some((it) => it === word));
  return (
    <li class="row-of wrap">
      <a data-row class="name" href={to(['endpoint', schema, table])}>
        <b>
          <Name of={schema === 'public' ? table : `${schema}.${table}`} />
        </b>
      </a>
      <span class="grow">
        <Text of={troubles.map(({ sentence }) => sentence).join(' ')} max={800} />
      </span>
      {hasGap ? (
        <a class="button" href={to(['sql'], { sql: showGaps({ schema, table }) })}>
          Show the hours
        </a>
      ) : null}
      {hasGap && troubles.length === 1 ? null : (
        <a class="button" href={to(['requests'], { result: 'refused', schema, table })}>
          Show them
        </a>
      )}
      {row['owned'] !== 'f' && Number(row['unauthorized'] ?? 0) > Number(row['refused'] ?? 0) ? (
        <a
          class="button"
          href={to(['secrets'], {
            q: row['secrets']?.split(', ')[0] ?? '',
            old: row['state'] === 'nothing stored' ? 'refused' : '',
          })}
        >
          Set the secret
        </a>
      ) : null}
    </li>
  );
}

function Figures({
  rows,
  tables,
  compared,
}: {
  readonly rows: readonly ResultRow[] | null;
  readonly tables: string | null;
  readonly compared: JSX.Element | null;
}) {
  const { stored, spooled, unauthorized, refused, unavailable, all, p50, p99 } = sumsOf(rows ?? []);
  const text = (count: number): string => (rows === null ? '…' : digitsText(String(count)));
  return (
    <dl class="figures">
      <Figure
        name="Requests"
        value={text(all)}
        note={
          compared ??
          (tables === null ? '' : `${digitsText(tables)} ${tables === '1' ? 'endpoint' : 'endpoints'}`)
        }
      />
      <Figure
        name="Stored"
        value={text(stored)}
        note={all === 0 ? '' : `${((100 * stored) / all).toFixed(2)} % of all`}
        isLess
      />
      <Figure name="Kept on disk" value={text(spooled)} note="of those stored" isLess />
      <Figure name="Refused" value={text(unauthorized + refused)} note={`${text(unauthorized)} with 401`} />
      <Figure name="Told to come again" value={text(unavailable)} note="5xx or 429" isLess />
      <Figure name="Answered in" value={p99} note={`p99 · median ${p50}`} isLess />
    </dl>
  );
}

function Reasons(): JSX.Element {
  const reasons = useRows(listReasons(null), 10_000);
  return (
    <section class="card">
      <h2>
        <a href={to(['requests'], { result: 'refused' })}>Why requests were refused</a>
      </h2>
      <Listing
        loaded={reasons}
        empty={
          me.value?.superuser === false ? (
            <>Nothing was refused at tables that you may see.</>
          ) : (
            <>Nothing was refused.</>
          )
        }
      >
        {(rows) => (
          <>
            <KeptOf of={null} />
            <ul class="list">
              {rows.slice(0, 8).map((row) => (
                <li key={`${row['last_id']}`}>
                  <a data-row class="line" href={to(['requests'], reasonFilter(row))}>
                    <span class="row-of">
                      <span class="count">
                        <Badge kind="bad">{digitsText(row['requests'] ?? '')}</Badge>
                      </span>
                      <span class="grow">
                        <Text of={briefReason(row)} max={80} />
                        <br />
                        <span class="faint">
                          {(row['table_name'] ?? '') === '' ? (
                            'no endpoint'
                          ) : (
                            <Name of={row['table_name'] ?? ''} />
                          )}
                        </span>
                      </span>
                      <span class="faint">
                        <Ago at={timeOf(row['last_at'] ?? null)} />
                      </span>
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          </>
        )}
      </Listing>
    </section>
  );
}

export function Figure({
  name,
  value,
  note = '',
  wrong = false,
  isLess = false,
}: {
  readonly name: string;
  readonly value: string;
  readonly note?: JSX.Element | string;
  readonly wrong?: boolean;
  /** Not on a phone. */
  readonly isLess?: boolean;
}): JSX.Element {
  return (
    <div class={isLess ? 'less' : undefined}>
      <dt>{name}</dt>
      <dd>{wrong ? <Badge kind="warn">{value}</Badge> : value}</dd>
      {note === '' ? null : <dd class="note">{note}</dd>}
    </div>
  );
}
