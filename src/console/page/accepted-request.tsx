/**
 * One accepted request of a table with `inspect = 'bodies'`: its contents, as long as they are kept in memory. If they are gone, says
 * why, and links to the rows.
 */
import type { JSX } from 'preact';
import type { HeldRequest } from '../../observe/tail.ts';
import type { TableRef } from '../statements.ts';
import { useLoaded } from './load.ts';
import { Ago, Badge, Copy, Shown, Text } from './parts.tsx';
import { copyOf, lackingOf, RequestAsItCame } from './request.tsx';
import { to } from './route.ts';
import { call } from './server.ts';

export function AcceptedRequest({ held, ...table }: TableRef & { readonly held: string }): JSX.Element {
  const loaded = useLoaded(held, (options) =>
    call<HeldRequest>('held', { ...options, body: { held, ...table } }),
  );
  const rows = to(['endpoint', table.schema, table.table, 'rows']);
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['endpoint', table.schema, table.table])}>
            <Text of={`${table.schema}.${table.table}`} max={140} />
          </a>{' '}
          <span class="faint">/</span> a request
        </h1>
      </header>
      <Shown loaded={loaded}>{(value) => <Known request={value} rows={rows} />}</Shown>
      {loaded.failure === null ? null : (
        <p class="faint">
          Accepted requests are kept in memory for a while, if their table allows it. The rows remain:{' '}
          <a href={rows}>the last rows</a>.
        </p>
      )}
    </>
  );
}

function Known({ request, rows }: { readonly request: HeldRequest; readonly rows: string }): JSX.Element {
  const { schema, table, atMs, remoteAddress, headers, ...rest } = request;
  const came = {
    ...rest,
    table: { schema, table },
    headers: Object.entries(headers),
    at: (atMs / 1_000).toFixed(3),
  };
  return (
    <>
      <p class="verdict good">
        <Badge kind="good">accepted</Badge> <Ago at={atMs} />, from {remoteAddress}.{' '}
        <a href={rows}>The last rows</a>
      </p>
      <div class="row-of wrap">
        {lackingOf(came) === null ? <Copy text={copyOf(came)} label="Copy as curl" hotkey="c" /> : null}
      </div>
      <RequestAsItCame came={came} explained checked />
    </>
  );
}
