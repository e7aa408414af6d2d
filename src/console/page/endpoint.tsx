/** One endpoint: requests as they arrive, its last rows, why requests were refused, a check of a request, its definition. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { noAddress } from '../list-address.ts';
import { briefReason, reasonFilter } from '../outcome-summary.ts';
import { qualified, shellWord } from '../quote.ts';
import { dropTable, inspect, listMax, listReasons, showCreate } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { aboutText } from '../visible-text.ts';
import { CopyField, Name, Reachable, urlOf } from './address.tsx';
import { Monogram } from './endpoints.tsx';
import { Facts, SendTest, useFacts } from './endpoint-facts.tsx';
import type { FactsOf } from './endpoint-facts.tsx';
import { useLoaded, useRows } from './load.ts';
import { Action, Ago, Badge, Code, Copy, Listing, Shown, Sql } from './components.tsx';
import { Text } from './text.tsx';
import { timeOf } from '../request-rows.ts';
import { RangeMenu, rangeOf, sumsOf, Traffic, useCompared, useTraffic } from './time-range.tsx';
import { LatestRequests } from './request-live.tsx';
import { go, route, to } from './route.ts';
import { ShareList } from './share.tsx';
import { look } from './server.ts';
import { lazy } from './lazy.tsx';
import { KeptOf } from './kept-of.tsx';
import { Trouble } from './endpoint-problem.tsx';

const Rows = lazy(async () => (await import('./rows.tsx')).Rows);
const Verify = lazy(async () => (await import('./verify.tsx')).Verify);

const tabs = [
  ['requests', 'Requests'],
  ['rows', 'Rows'],
  ['refused', 'Reasons'],
  ['verify', 'Verify'],
  ['definition', 'Definition'],
] as const;

interface Props extends TableRef {
  readonly tab: string;
}

export function Endpoint({ schema, table, tab }: Props): JSX.Element {
  const url = urlOf(schema, table);
  const ref = { schema, table };
  const active = tabs.find(([id]) => id === tab)?.[0] ?? 'requests';
  const curl = `curl -H 'Content-Type: application/json' -d '{"hello":"world"}' ${shellWord(url)}`;
  const { query } = route.value;
  const listed = { ...noAddress, ...ref, ...(active === 'requests' ? narrowedBy(query) : {}) };
  const range = rangeOf(query, '24h');
  const traffic = useTraffic(ref, range);
  const compared = useCompared(ref, range);
  const found = useFacts(ref);
  if (found === 'none') return <None of={ref} />;
  const facts = found;
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['endpoints'])}>Endpoints</a> <span class="faint">/</span>{' '}
          <Name of={schema === 'public' ? table : `${schema}.${table}`} max={48} />{' '}
          {facts?.sender === undefined || facts.sender === null ? null : <Monogram of={facts.sender.name} />}
        </h1>
        <RangeMenu range={range} />
        <ShareList address={listed} isShown={active === 'requests'} />
        {facts === null ? null : <SendTest of={ref} facts={facts} />}
      </header>
      <div class="row-of wrap">
        <CopyField label="Its address" text={url} copy="Copy URL" />
        <Copy text={curl} label="Copy curl" hotkey="c" kind="" />
      </div>
      <Reachable />
      {facts === null ? null : (
        <Trouble of={ref} oid={facts.row['oid'] ?? ''} secrets={facts.owned ? facts.secrets : []} />
      )}
      <div class="two chart-and-facts">
        <Traffic of={ref} range={range} loaded={traffic} compared={compared} />
        {facts === null ? null : <Facts facts={facts} of={ref} requests={sumsOf(traffic.value ?? []).all} />}
      </div>
      <section class="card tabbed">
        <div class="tabs" role="tablist">
          {tabs.map(([id, label]) => (
            <a key={id} role="tab" aria-selected={active === id} href={to(['endpoint', schema, table, id])}>
              {label}
              {id !== 'rows' || facts === null ? null : (
                <span class="n" title="an estimate">
                  {aboutText(facts.row['rows_estimate'])}
                </span>
              )}
            </a>
          ))}
        </div>
        {active === 'requests' ? <Requests of={ref} curl={curl} /> : null}
        {active === 'rows' ? <Rows of={ref} /> : null}
        {active === 'refused' ? <Reasons of={ref} /> : null}
        {active === 'verify' ? <Verify table={ref} /> : null}
        {active === 'definition' ? <Definition of={ref} facts={facts} /> : null}
      </section>
    </>
  );
}

/** The part of its requests that the address says. */
const narrowedBy = (query: URLSearchParams) => ({
  result: query.get('result') ?? '',
  q: query.get('q') ?? '',
});

/** Its newest ones, of which the address may say which. */
function Requests({ of, curl }: { readonly of: TableRef; readonly curl: string }): JSX.Element {
  const { parts, query } = route.value;
  const { result, q } = narrowedBy(query);
  return (
    <LatestRequests
      address={{ ...noAddress, ...of, result, q }}
      set={(change) => go(parts, { ...Object.fromEntries(query), ...change })}
      max={50}
      empty={
        result + q === '' ? (
          <>
            Waiting for a request. <Code text={curl} />
          </>
        ) : (
          <>
            <b>No request matches.</b>{' '}
            {q === '' || result === 'refused' ? null : (
              <a href={to(['endpoint', of.schema, of.table, 'rows'], { q })}>Look in its rows</a>
            )}
          </>
        )
      }
    />
  );
}

function None({ of: { schema, table } }: { readonly of: TableRef }): JSX.Element {
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['endpoints'])}>Endpoints</a> <span class="faint">/</span>{' '}
          <Name of={schema === 'public' ? table : `${schema}.${table}`} max={48} />
        </h1>
      </header>
      <div class="empty">
        There is no such table, or it is not yours to look at. <a href={to(['endpoints'])}>All endpoints</a>
      </div>
    </>
  );
}

function Reasons({ of }: { readonly of: TableRef }): JSX.Element {
  const sql = listReasons(of);
  const loaded = useRows(sql, 5_000);
  return (
    <>
      <KeptOf of={of} />
      <Listing
        loaded={loaded}
        max={listMax.reasons}
        empty={<>No refused requests are kept for this table.</>}
      >
        {(rows) => (
          <div class="scroll" tabIndex={0} role="region" aria-label="Reasons">
            <table class="rows">
              <thead>
                <tr>
                  <th class="right">Kept</th>
                  <th>Code</th>
                  <th>Reason</th>
                  <th>Last</th>
                  <th>
                    <span class="unseen">their requests</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row['last_id']}>
                    <td class="right mono">{row['requests']}</td>
                    <td class="tight">
                      <Badge kind="bad">{row['status']}</Badge> {row['code']}
                    </td>
                    <td>
                      <a data-row href={to(['requests', `r${row['last_id']}`])}>
                        <Text of={briefReason(row)} max={80} />
                      </a>
                      <div class="faint">
                        <Text of={row['reason'] ?? ''} max={400} />
                      </div>
                    </td>
                    <td>
                      <Ago at={timeOf(row['last_at'] ?? null)} />
                    </td>
                    <td class="tight">
                      <a href={to(['requests'], reasonFilter(row))}>show all</a>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Listing>
      <Sql text={sql} />
    </>
  );
}

/** Statements to be completed on the SQL page. */
function changesOf({ schema, table }: TableRef): readonly (readonly [string, string])[] {
  const name = qualified(schema, table);
  return [
    ['Check a sender', `ALTER TABLE ${name} VALIDATE SECRET name_of_the_secret USING github`],
    [
      'Accept a second secret',
      `CREATE SECRET new_secret WITH (backend = 'meta') AS 'the new key';\nALTER TABLE ${name} VALIDATE SECRET old_secret, new_secret USING github;`,
    ],
  ];
}

function Definition({ of, facts }: { readonly of: TableRef; readonly facts: FactsOf | null }): JSX.Element {
  const sql = showCreate(of);
  const loaded = useLoaded(sql, (options) => look(sql, options));
  const { reload } = loaded;
  return (
    <>
      <Shown loaded={loaded}>
        {({ tables }) => <Code text={tables.at(-1)?.rows[0]?.at(-1) ?? ''} isSql />}
      </Shown>
      <Sql text={sql} />
      {facts?.owned === true ? (
        <Changes
          of={of}
          isShown={facts.options['inspect'] === 'bodies'}
          reload={() => {
            reload();
            facts.refresh();
          }}
        />
      ) : null}
    </>
  );
}

interface ChangesProps {
  readonly of: TableRef;
  /** Bodies of accepted requests are kept in memory. */
  readonly isShown: boolean;
  readonly reload: () => void;
}

function Changes({ of, isShown, reload }: ChangesProps): JSX.Element {
  return (
    <>
      <h2>Check</h2>
      <p class="row-of wrap">
        {changesOf(of).map(([label, text]) => (
          <a key={label} class="button" href={to(['sql'], { sql: text })}>
            {label}
          </a>
        ))}
      </p>
      <h2>Show accepted requests</h2>
      <p class="faint">
        Under Requests, each new request links to its headers and body, as long as they are kept in memory.
        Headers that may contain credentials are masked.
      </p>
      <div class="row-of wrap">
        {isShown ? (
          <Action label="Stop showing them" sql={inspect(of, 'off')} done={reload} />
        ) : (
          <Action label="Show them" sql={inspect(of, 'bodies')} done={reload} />
        )}
      </div>
      <Danger of={of} reload={reload} />
    </>
  );
}

/** What cannot be taken back: only after the table's name was typed. */
function Danger({ of, reload }: { readonly of: TableRef; readonly reload: () => void }): JSX.Element {
  const [typed, setTyped] = useState('');
  const sure = typed === of.table;
  return (
    <section class="card danger-card">
      <h2>Dangerous</h2>
      <p class="faint">
        Without its check anybody who knows the address can store rows. A table that is dropped is deleted
        with all its rows, and its address answers 404.
      </p>
      <label>
        To go on, type the table's name
        <input
          class="narrow"
          value={typed}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <div class="row-of wrap">
        <Action
          label="Let anyone write"
          kind="danger"
          disabled={!sure}
          confirm="Store whatever anybody sends?"
          sql={`ALTER TABLE ${qualified(of.schema, of.table)} DROP VALIDATE`}
          done={reload}
        />
        <Action
          label="Drop the table"
          kind="danger"
          disabled={!sure}
          confirm={`Drop ${of.table} with all its rows?`}
          sql={dropTable(of)}
          done={() => go(['endpoints'])}
        />
      </div>
    </section>
  );
}
