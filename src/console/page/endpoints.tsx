/**
 * All webhook tables of the role: where they are called, what guards them, when something came last, and what was refused
 * in the last hour (`headgate.webhook_table`, `headgate.rejected_requests`; rows are the engine's own estimate).
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { digitsText, sizeText } from '../shown.ts';
import { listEndpoints } from '../statements.ts';
import { FirstSteps } from './first-steps.tsx';
import { keyOf, lastSeen } from './live.ts';
import { useRows } from './load.ts';
import type { Row } from './load.ts';
import { Ago, Badge, Copy, Listing, Sql, Text } from './parts.tsx';
import { go, to } from './route.ts';
import { me } from './server.ts';

/** As a sender calls it. */
export function urlOf(schema: string, table: string): string {
  const { base = null, database = '' } = me.value ?? {};
  const path = [database, schema, table].map(encodeURIComponent).join('/');
  return `${base ?? 'http://…'}/webhook/${path}`;
}

export function Endpoints(): JSX.Element {
  const loaded = useRows(listEndpoints, 5_000);
  const [text, setText] = useState('');
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
      <Listing loaded={loaded} empty={<FirstSteps />}>
        {(rows) => <Table rows={rows} text={text} clear={() => setText('')} />}
      </Listing>
      <Sql text={listEndpoints} />
    </>
  );
}

interface TableProps {
  readonly rows: readonly Row[];
  readonly text: string;
  readonly clear: () => void;
}

function Table({ rows, text, clear }: TableProps): JSX.Element {
  const wanted = rows.filter((row) =>
    `${row['nspname']}.${row['relname']}`.toLowerCase().includes(text.toLowerCase()),
  );
  if (wanted.length === 0)
    return (
      <div class="empty">
        No endpoint is called like that.{' '}
        <button type="button" onClick={clear}>
          Show all
        </button>
      </div>
    );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Endpoints">
      <table class="rows">
        <thead>
          <tr>
            <th>table</th>
            <th>address</th>
            <th>check</th>
            <th>last request</th>
            <th class="right">rows</th>
            <th class="right">size</th>
            <th>refused, last hour</th>
          </tr>
        </thead>
        <tbody>
          {wanted.map((row) => (
            <EndpointRow key={`${row['nspname']}.${row['relname']}`} row={row} />
          ))}
        </tbody>
      </table>
      {rows.length === 500 ? <p class="faint">The first 500.</p> : null}
    </div>
  );
}

function EndpointRow({ row }: { readonly row: Row }): JSX.Element {
  const [schema, table] = [row['nspname'] ?? '', row['relname'] ?? ''];
  const url = urlOf(schema, table);
  const seen = lastSeen.value.get(keyOf(schema, table));
  const refused = Number(row['refused'] ?? 0);
  return (
    <tr onClick={() => go(['endpoint', schema, table])}>
      <td>
        <a data-row href={to(['endpoint', schema, table])}>
          {schema === 'public' ? null : <Text of={`${schema}.`} max={80} />}
          <b>
            <Text of={table} max={80} />
          </b>
        </a>
      </td>
      <td class="url">
        <div>
          <span class="mono" title={url}>
            <Text of={url} max={200} />
          </span>
          <Copy text={url} />
        </div>
      </td>
      <td>
        {row['expression'] === null ? (
          <Badge kind="warn">open to anyone</Badge>
        ) : (
          <Badge kind="good">checked</Badge>
        )}{' '}
        <span class="faint">
          <Text of={row['secrets'] ?? ''} max={60} />
        </span>
      </td>
      <td>{seen === undefined ? <span class="faint">none seen</span> : <Ago at={seen.atMs} />}</td>
      <td class="right mono" title="an estimate">
        {digitsText(row['rows_estimate'] ?? '')}
      </td>
      <td class="right mono">{sizeText(Number(row['bytes'] ?? 0))}</td>
      <td>
        {refused === 0 ? (
          <span class="faint">none</span>
        ) : (
          <a
            href={to(['refused'], { schema, table, since: '1h' })}
            onClick={(event) => event.stopPropagation()}
          >
            <Badge kind="bad">{refused}</Badge>{' '}
            <span class="faint">
              <Text of={row['last_reason'] ?? ''} max={70} />
            </span>
          </a>
        )}
      </td>
    </tr>
  );
}
