/**
 * All webhook tables of the role: their addresses, whose check guards them, the last request, the traffic of the last day,
 * and what was refused in the last hour (SHOW ENDPOINTS, `headgate.traffic`, `headgate.rejected_requests`; the numbers of rows
 * are the engine's estimates).
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { digitsText, sizeText } from '../shown.ts';
import { countEndpoints, listEndpoints, listMax, listTraffic, showEndpoints } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { Bars, barsOf, boundText } from './chart.tsx';
import { FirstSteps } from './first-steps.tsx';
import { keyOf, lastSeen } from './live.ts';
import { useRows } from './load.ts';
import type { Row } from './load.ts';
import { Ago, Badge, Copy, Listing, Sql, Text, timeOf } from './parts.tsx';
import { go, to } from './route.ts';
import { me } from './server.ts';
import { rowOf, stateOf } from './trouble.tsx';

/** The URL that a sender calls. */
export function urlOf(schema: string, table: string): string {
  const { base = null, database = '' } = me.value ?? {};
  const path = [database, schema, table].map(encodeURIComponent).join('/');
  return `${base ?? 'http://…'}/webhook/${path}`;
}

export function Endpoints(): JSX.Element {
  const [text, setText] = useState('');
  const [wanted, setWanted] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setWanted(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  const loaded = useRows(listEndpoints(wanted), 5_000);
  const all = useRows(countEndpoints(''), 10_000).value?.[0]?.['tables'] ?? null;
  const matching = useRows(countEndpoints(wanted), 10_000).value?.[0]?.['tables'] ?? null;
  const known = useRows(showEndpoints, 10_000).value;
  const traffic = useRows(listTraffic(wanted), 15_000).value;
  return (
    <>
      <header class="head">
        <h1>Endpoints</h1>
        <input
          data-search
          type="search"
          placeholder="Search /"
          aria-label="Search endpoints"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <a class="button primary" href={to(['new'])}>
          New endpoint
        </a>
      </header>
      <Listing
        loaded={loaded}
        empty={
          wanted === '' ? (
            <FirstSteps />
          ) : (
            <>
              No endpoint matches.{' '}
              <button type="button" onClick={() => setText('')}>
                Show all
              </button>
            </>
          )
        }
      >
        {(rows) => <Table rows={rows} known={known} traffic={traffic} />}
      </Listing>
      {all === null || matching === null ? null : (
        <p class="faint" role="status">
          {wanted === '' ? '' : `${digitsText(matching)} of `}
          {digitsText(all)} {all === '1' ? 'endpoint' : 'endpoints'}
          {Number(matching) > listMax.endpoints
            ? `; the first ${listMax.endpoints} are shown: search for the others`
            : ''}
        </p>
      )}
      <Sql text={[showEndpoints, listTraffic(wanted), listEndpoints(wanted)].join(';\n\n')} />
    </>
  );
}

interface Counted {
  /** From SHOW ENDPOINTS; null: not loaded yet. */
  readonly known: readonly Row[] | null;
  /** From listTraffic. */
  readonly traffic: readonly Row[] | null;
}

interface TableProps extends Counted {
  readonly rows: readonly Row[];
}

function Table({ rows, ...counted }: TableProps): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Endpoints">
      <table class="rows">
        <thead>
          <tr>
            <th>table and address</th>
            <th>check</th>
            <th>state</th>
            <th>last request</th>
            <th>24 hours</th>
            <th class="right">p99</th>
            <th class="right">rows</th>
            <th>refused, 1 h</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <EndpointRow key={`${row['nspname']}.${row['relname']}`} row={row} {...counted} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function EndpointRow({ row, known, traffic }: { readonly row: Row } & Counted): JSX.Element {
  const [schema, table] = [row['nspname'] ?? '', row['relname'] ?? ''];
  const url = urlOf(schema, table);
  const seen = lastSeen.value.get(keyOf(schema, table));
  const shown = rowOf(known, { schema, table }, 'shown');
  const hour = rowOf(traffic, { schema, table }, 'sql');
  const state = stateOf(shown, hour);
  const last = Math.max(seen?.atMs ?? 0, timeOf(shown?.['Last Request'] ?? null) || 0);
  const sum = (name: string): string => digitsText(shown?.[name] ?? '0');
  return (
    <tr onClick={() => go(['endpoint', schema, table])}>
      <td class="url">
        <a data-row href={to(['endpoint', schema, table])}>
          {schema === 'public' ? null : <Text of={`${schema}.`} max={80} />}
          <b>
            <Text of={table} max={80} />
          </b>
        </a>
        <div>
          <span class="mono faint" title={url}>
            <Text of={url.replace(/^\w+:\/\/[^/]+/, '')} max={200} />
          </span>
          <Copy text={url} />
        </div>
      </td>
      <td>
        {row['expression'] === null ? (
          <Badge kind="warn">open to anyone</Badge>
        ) : (
          <span title={row['secrets'] ?? ''}>
            <Badge kind="good">{shown?.['Sender'] ?? 'checked'}</Badge>
          </span>
        )}
      </td>
      <td>
        <span title={state.sentence ?? ''}>
          <Badge kind={state.kind}>{state.word}</Badge>
        </span>
      </td>
      <td>{last === 0 ? <span class="faint">never</span> : <Ago at={last} />}</td>
      <td>
        <Bars
          bars={barsOf(hour?.['day'] ?? '')}
          count={96}
          height={16}
          label={`In 24 hours ${sum('Stored')} stored, ${sum('Unauthorized')} with 401, ${sum('Refused')} other refusals, ${sum('Unavailable')} told to retry`}
        />
      </td>
      <td class="right mono">{boundText(shown?.['P99 ms'] ?? null)}</td>
      <td class="right" title="an estimate">
        {digitsText(row['rows_estimate'] ?? '')}
        <div class="faint tight">{row['bytes'] === null ? 'locked' : sizeText(Number(row['bytes']))}</div>
      </td>
      <td>
        <LastRefused row={row} of={{ schema, table }} />
      </td>
    </tr>
  );
}

function LastRefused({ row, of }: { readonly row: Row; readonly of: TableRef }): JSX.Element {
  const refused = Number(row['refused'] ?? 0);
  if (refused === 0) return <span class="faint">none</span>;
  return (
    <a
      href={to(['refused'], { ...of, since: '1h' })}
      title={row['last_reason'] ?? ''}
      onClick={(event) => event.stopPropagation()}
    >
      <Badge kind="bad">{refused}</Badge>
    </a>
  );
}
