/**
 * All endpoints of the role, a page of them at a time: searched, filtered, sorted and counted by the engine (`endpoint-list.ts`), with the
 * sender of each, its state in words, and a day of requests.
 */
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import type { SenderName } from '../api.ts';
import { aboutText, digitsText, sizeText } from '../visible-text.ts';
import { countEndpoints, endpointsPage, listEndpoints, listTraffic, shows, sorts } from '../endpoint-list.ts';
import type { EndpointFilter } from '../endpoint-list.ts';
import type { TableRef } from '../statements.ts';
import { Name, urlOf } from './address.tsx';
import { Bars, barsOf } from './chart.tsx';
import { SearchField, useTyped } from './find-text.tsx';
import { Text } from './text.tsx';
import type { BarKind } from './chart.tsx';
import { FirstSteps } from './first-steps.tsx';
import { sumsOf } from './time-range.tsx';
import { keyOf, lastSeen } from './live.ts';
import { rowsOf, useLoaded, useRowsIf } from './load.ts';
import type { ResultRow } from './load.ts';
import { Ago, Badge, Copy, Listing, NewEndpoint, Sql } from './components.tsx';
import { timeOf } from '../request-rows.ts';
import { go, route, to } from './route.ts';
import { call, look } from './server.ts';
import { rowOf, stateOf, useUnusable } from './endpoint-problem.tsx';
import { checksOf, NameChip, SenderChip, useSenderChoices } from './endpoint-filters.tsx';
import type { SenderChoices } from './endpoint-filters.tsx';
import { useNeedsCounted } from './endpoint-problems.ts';
import type { EndpointStatus } from './endpoint-problem.tsx';

/** Kept for those who used to find it here. */
export { urlOf } from './address.tsx';

const labels = {
  all: 'All',
  need: 'Need you',
  open: 'Open to anyone',
  quiet: 'Quiet',
  never: 'No request yet',
} as const;
const sortLabels = { state: 'State', name: 'Name', requests: 'Requests', refused: 'Refused' } as const;

/** Without the checks of its sender, which the engine and the server know. */
function filterOf(query: URLSearchParams): EndpointFilter {
  return {
    text: query.get('q') ?? '',
    show: shows.find((it) => it === query.get('show')) ?? 'all',
    sort: sorts.find((it) => it === query.get('sort')) ?? 'state',
    checks: null,
    schema: query.get('schema') ?? '',
    owner: query.get('owner') ?? '',
    page: Math.max(0, Math.trunc(Number(query.get('page') ?? 0)) || 0),
  };
}

export function Endpoints(): JSX.Element {
  const { query } = route.value;
  const asked = filterOf(query);
  const sender = query.get('sender') ?? '';
  const choices = useSenderChoices(sender !== '');
  const isKnown = sender === '' || choices.value !== null;
  const checks = sender === '' || choices.value === null ? null : checksOf(choices.value, sender);
  const filter = { ...asked, checks };
  const change = (to: Change): void => {
    const next = { ...filter, sender, page: 0, ...to };
    const { show, sort, page } = next;
    const wanted = {
      q: next.text,
      show: show === 'all' ? '' : show,
      sender: next.sender,
      schema: next.schema,
      owner: next.owner,
      sort: sort === 'state' ? '' : sort,
    };
    const isStep = (['page', 'sender', 'schema', 'owner'] as const).some((it) => to[it] !== undefined);
    go(['endpoints'], { ...wanted, page: page === 0 ? '' : String(page) }, !isStep);
  };
  const [text, setText] = useTyped(filter.text, (to) => change({ text: to }));
  const [sql, countsSql] = [listEndpoints(filter), countEndpoints(filter)];
  const rows = useRowsIf(isKnown ? sql : null, 15_000);
  const loaded = isKnown ? rows : { ...rows, value: null, failure: choices.failure };
  const counts = useRowsIf(isKnown ? countsSql : null, 30_000).value?.[0] ?? null;
  const isAll = filter.text + sender + filter.schema + filter.owner === '';
  useNeedsCounted(isAll ? (counts?.['need'] ?? null) : null);
  const total = Number(counts?.[filter.show] ?? 0);
  return (
    <>
      <header class="head">
        <h1>
          Endpoints <span class="faint">{counts === null ? '' : digitsText(counts['all'] ?? '')}</span>
        </h1>
        <SearchField label="Search endpoints" placeholder="Name or secret" value={text} set={setText} />
        <NewEndpoint />
      </header>
      <Filters filter={filter} sender={sender} choices={choices.value} counts={counts} change={change} />
      <Listing
        loaded={loaded}
        empty={
          isAll && filter.show === 'all' && filter.page === 0 ? (
            <FirstSteps />
          ) : (
            <>
              No endpoint matches.{' '}
              <button
                type="button"
                onClick={() => change({ text: '', show: 'all', sender: '', schema: '', owner: '' })}
              >
                Show all
              </button>
            </>
          )
        }
      >
        {(rows) => <Table rows={rows} />}
      </Listing>
      {counts === null ? null : <Pages filter={filter} total={total} turn={(page) => change({ page })} />}
      <Sql text={[sql, countsSql].join(';\n\n')} />
    </>
  );
}

type Change = Partial<EndpointFilter & { readonly sender: string }>;

interface FiltersProps {
  readonly filter: EndpointFilter;
  readonly sender: string;
  readonly choices: SenderChoices | null;
  readonly counts: ResultRow | null;
  readonly change: (to: Change) => void;
}

function Filters({ filter, sender, choices, counts, change }: FiltersProps): JSX.Element {
  return (
    <div class="row-of wrap filter-row">
      <div class="segments" role="group" aria-label="Show">
        {shows.map((show) => (
          <button
            key={show}
            type="button"
            aria-pressed={filter.show === show}
            onClick={() => change({ show })}
          >
            {labels[show]} <span class="faint">{counts === null ? '' : digitsText(counts[show] ?? '')}</span>
          </button>
        ))}
      </div>
      <div class="row-of wrap">
        <SenderChip value={sender} set={(to) => change({ sender: to })} known={choices} />
        <NameChip of="schema" value={filter.schema} set={(schema) => change({ schema })} />
        <NameChip of="owner" value={filter.owner} set={(owner) => change({ owner })} />
        <label class="row-of">
          <span class="faint">Sort by</span>
          <select
            value={filter.sort}
            onChange={(event) =>
              change({ sort: sorts.find((it) => it === event.currentTarget.value) ?? 'state' })
            }
          >
            {sorts.map((sort) => (
              <option key={sort} value={sort}>
                {sortLabels[sort]}
              </option>
            ))}
          </select>
        </label>
      </div>
    </div>
  );
}

interface PagesProps {
  readonly filter: EndpointFilter;
  readonly total: number;
  readonly turn: (page: number) => void;
}

function Pages({ filter: { page, sort }, total, turn }: PagesProps): JSX.Element {
  const [first, last] = [page * endpointsPage + 1, Math.min(total, (page + 1) * endpointsPage)];
  return (
    <div class="row-of pages">
      <span class="faint grow" role="status">
        {total === 0
          ? 'No endpoint'
          : `${digitsText(String(first))} – ${digitsText(String(last))} of ${digitsText(String(total))}`}
        {sort === 'state' && total > 1 ? ' · those that need you come first' : ''}
      </span>
      <button type="button" disabled={page === 0} onClick={() => turn(page - 1)}>
        Previous
      </button>
      <button type="button" disabled={last >= total} onClick={() => turn(page + 1)}>
        Next
      </button>
    </div>
  );
}

const refOf = (row: ResultRow): TableRef => ({ schema: row['nspname'] ?? '', table: row['relname'] ?? '' });

function Table({ rows }: { readonly rows: readonly ResultRow[] }): JSX.Element {
  const days = useDays(rows);
  const unusable = useUnusable(rows.map((row) => row['oid'] ?? ''));
  const checks = rows.map((row) => ({
    expression: row['expression'] ?? '',
    secrets: JSON.parse(row['aliases'] ?? '[]') as string[],
  }));
  const senders = useLoaded(JSON.stringify(checks), (options) =>
    call<readonly (SenderName | null)[]>('which-sender', { ...options, body: { checks } }),
  ).value;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Endpoints">
      <table class="rows wide-rows">
        <thead>
          <tr>
            <th>Endpoint</th>
            <th>Sender</th>
            <th>State</th>
            <th>Last request</th>
            <th>24 hours</th>
            <th class="right">Requests</th>
            <th class="right">Refused</th>
            <th class="right">p99</th>
            <th class="right">Rows</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <EndpointRow
              key={`${row['nspname']}.${row['relname']}`}
              row={row}
              sender={senders === null ? '' : (senders[i]?.name ?? 'Own check')}
              unusable={unusable[row['oid'] ?? ''] ?? null}
              day={days.get(keyOf(refOf(row).schema, refOf(row).table))?.row}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const quarterMs = 15 * 60_000;

interface Day {
  readonly mark: string;
  readonly row: ResultRow | undefined;
}

/** The day of each, by `keyOf`: read again, after the list, of those that had requests since, and of all every quarter of an hour, as bars move on. */
function useDays(rows: readonly ResultRow[]): ReadonlyMap<string, Day> {
  const known = useRef(new Map<string, Day>());
  const quarter = Math.floor(Date.now() / quarterMs);
  const marked = rows.map((row) => {
    const of = refOf(row);
    return { of, key: keyOf(of.schema, of.table), mark: `${quarter} ${row['last_at']}` };
  });
  useLoaded(marked.map(({ key, mark }) => `${key} ${mark}`).join(), async (options) => {
    const asked = marked.filter(({ key, mark }) => known.current.get(key)?.mark !== mark);
    if (asked.length === 0) return known.current;
    const auto = known.current.size > 0;
    const sql = listTraffic(asked.map(({ of }) => of));
    const read = rowsOf((await look(sql, { ...options, auto })).tables.at(-1));
    const kept = marked.flatMap(({ key }) => {
      const day = known.current.get(key);
      return day === undefined ? [] : [[key, day] as const];
    });
    known.current = new Map(kept);
    for (const { of, key, mark } of asked) known.current.set(key, { mark, row: rowOf(read, of) });
    return known.current;
  });
  return known.current;
}

/** Of a table without a check. */
function openState(known: EndpointStatus): EndpointStatus {
  const isWell = known.kind === 'good' || known.kind === 'plain';
  const brief = isWell ? 'open to anyone' : `${known.brief}; open to anyone`;
  return { ...known, kind: isWell ? 'warn' : known.kind, brief };
}

interface EndpointRowProps {
  readonly row: ResultRow;
  /** '': it is not known yet. */
  readonly sender: string;
  readonly unusable: string | null;
  /** From listTraffic. */
  readonly day: ResultRow | undefined;
}

function EndpointRow({ row, sender, unusable, day }: EndpointRowProps): JSX.Element {
  const { schema, table } = refOf(row);
  const url = urlOf(schema, table);
  const seen = lastSeen.value.get(keyOf(schema, table));
  const known = stateOf(unusable, row);
  const state = row['expression'] === null ? openState(known) : known;
  const last = Math.max(seen?.atMs ?? 0, timeOf(row['last_at'] ?? null) || 0);
  const refused = Number(day?.['day_refused'] ?? 0);
  const bars = barsOf(day?.['day'] ?? '');
  const sum = (name: BarKind): string => digitsText(String(bars.reduce((all, bar) => all + bar[name], 0)));
  return (
    <tr onClick={() => go(['endpoint', schema, table])}>
      <td class="url">
        <a data-row href={to(['endpoint', schema, table])}>
          <b>
            <Name of={schema === 'public' ? table : `${schema}.${table}`} />
          </b>
        </a>
        <div>
          <span class="mono faint path" title={url}>
            <bdi dir="ltr">
              <Text of={url.replace(/^\w+:\/\/[^/]+\/webhook/, '')} max={400} />
            </bdi>
          </span>
          <Copy text={url} label="Copy URL" />
        </div>
      </td>
      <td>
        {row['expression'] === null ? (
          <Badge kind="warn">no check</Badge>
        ) : (
          <span title={row['secrets'] ?? ''}>{sender === '' ? '' : <Monogram of={sender} />}</span>
        )}
      </td>
      <td class={`state ${state.kind}`} title={state.sentence ?? ''}>
        <span class={`dot ${state.kind}`} /> {state.brief}
      </td>
      <td>{last === 0 ? <span class="faint">never</span> : <Ago at={last} />}</td>
      <td>
        <Bars
          bars={bars}
          count={96}
          height={16}
          label={`In 24 hours ${sum('good')} stored, ${digitsText(row['unauthorized'] ?? '0')} with 401 in the last hour, ${sum('bad')} refused, ${sum('later')} told to come again, ${sum('disk')} kept on disk`}
        />
      </td>
      <td class="right">{digitsText(day?.['day_requests'] ?? '0')}</td>
      <td class="right">
        {refused === 0 ? (
          <span class="faint">0</span>
        ) : (
          <a
            class="bad"
            href={to(['requests'], { result: 'refused', schema, table })}
            onClick={(event) => event.stopPropagation()}
          >
            {digitsText(String(refused))}
          </a>
        )}
      </td>
      <td class="right">{day === undefined ? '' : sumsOf([day]).p99}</td>
      <td class="right" title="an estimate">
        {aboutText(row['rows_estimate'])}
        <div class="faint tight">{row['bytes'] === null ? 'locked' : sizeText(Number(row['bytes']))}</div>
      </td>
    </tr>
  );
}

/** Of their brands; all others are plain. */
const tints: Readonly<Record<string, string>> = {
  Adyen: 'green',
  Discord: 'violet',
  HubSpot: 'red',
  Intercom: 'blue',
  Jira: 'blue',
  Linear: 'violet',
  Mailchimp: 'amber',
  Meta: 'blue',
  PayPal: 'blue',
  Shopify: 'green',
  Slack: 'violet',
  Stripe: 'violet',
  Trello: 'blue',
  Twilio: 'red',
  WooCommerce: 'violet',
  Zendesk: 'green',
  Zoom: 'blue',
};

const tintOf = (name: string): string => (Object.hasOwn(tints, name) ? `tint-${tints[name]}` : '');

/** A sender with its first letter. */
export function Monogram({ of }: { readonly of: string }): JSX.Element {
  const words = of.replace(/^Any sender with an? /, '').replace(/^Any sender with /, '');
  const name = `${Array.from(words)[0]?.toUpperCase() ?? ''}${Array.from(words).slice(1).join('')}`;
  return (
    <span class="sender">
      <span class={`monogram ${tintOf(of)}`} aria-hidden="true">
        {Array.from(name)[0]}
      </span>{' '}
      <span>{name}</span>
    </span>
  );
}
