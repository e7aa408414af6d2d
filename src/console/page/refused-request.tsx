/** One refused request: the reason, its contents, what was left out, the steps of its check, and a retry. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { forgetOne, readRefused, retryOne } from '../statements.ts';
import { useRows } from './load.ts';
import type { Row } from './load.ts';
import { Action, Ago, Badge, Copy, Listing, Sql, Text, timeOf } from './parts.tsx';
import { copyOf, lackingOf, RequestAsItCame } from './request.tsx';
import type { Came } from './request.tsx';
import { Outcome } from './retry-all.tsx';
import { go, to } from './route.ts';

export function RefusedRequest({ id }: { readonly id: string }): JSX.Element {
  const sql = readRefused(id);
  const loaded = useRows(sql, 1_500);
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['refused'])}>Refused</a> <span class="faint">/</span> <Text of={id} max={20} />
        </h1>
      </header>
      <Listing
        loaded={loaded}
        empty={
          <>
            There is no such request: its table is not yours, or it is no longer kept.{' '}
            <a href={to(['refused'])}>All refused requests</a>
          </>
        }
      >
        {([row]) => (row === undefined ? null : <Request row={row} />)}
      </Listing>
      <Sql text={sql} />
    </>
  );
}

function cameOf(row: Row): Came {
  const headers = Object.entries(JSON.parse(row['headers'] ?? '{}') as Record<string, string | string[]>);
  return {
    table: { schema: row['schema_name'] ?? '', table: row['table_name'] ?? '' },
    method: row['method'] ?? 'POST',
    target: row['target'] ?? '',
    headers: headers.flatMap(([name, value]) =>
      [value].flat().map((it): readonly [string, string] => [name, it]),
    ),
    leftOut: JSON.parse(row['headers_left_out'] ?? '[]') as string[],
    masked: JSON.parse(row['headers_masked'] ?? '{}') as Record<string, unknown>,
    body: row['body_base64'] ?? null,
    bodyBytes: Number(row['body_bytes'] ?? 0),
    at: row['at'] ?? '',
  };
}

function Request({ row }: { readonly row: Row }): JSX.Element {
  const came = cameOf(row);
  const { schema, table } = came.table;
  const checked = row['authenticated'] === 't';
  return (
    <>
      <p class="verdict bad">
        <Badge kind="bad">
          {row['status']} {row['code']}
        </Badge>{' '}
        <Text of={row['reason'] ?? ''} max={4_000} />
      </p>
      {row['engine_error'] === null ? null : (
        <p>
          PostgreSQL: <Text of={row['engine_error'] ?? ''} max={2_048} />
        </p>
      )}
      <p class="faint">
        <a href={to(['endpoint', schema, table, 'refused'])}>
          <Text of={`${schema}.${table}`} max={140} />
        </a>
        {' · '}
        <Ago at={timeOf(row['received_at'] ?? null)} /> · from {row['remote_address']} ·{' '}
        {checked ? 'VALIDATE accepted it, or the table has none' : 'VALIDATE did not accept it'}
      </p>
      <Actions row={row} came={came} checked={checked} />
      {row['retry_outcome'] === null ? null : (
        <p role="status">
          Retried: <Outcome outcome={row['retry_outcome'] ?? ''} />{' '}
          <span class="faint">
            <Text of={row['retry_reason'] ?? ''} max={2_000} />
          </span>
        </p>
      )}
      <RequestAsItCame came={came} explained={!checked} checked={checked} />
      <Compare id={row['id'] ?? ''} />
    </>
  );
}

interface ActionsProps {
  readonly row: Row;
  readonly came: Came;
  readonly checked: boolean;
}

function Actions({ row, came, checked }: ActionsProps): JSX.Element {
  const id = row['id'] ?? '';
  // As `headgate.retry_rejected` answers it in psql.
  const lacking =
    row['door'] === 'websocket'
      ? 'the batches of a WebSocket come in an order that only its client can repeat'
      : lackingOf(came);
  const disabled = lacking !== null;
  return (
    <div class="row-of wrap">
      {checked ? (
        <Action
          label="Retry"
          hotkey="r"
          kind="primary"
          sql={retryOne(id, false)}
          disabled={disabled}
          answers
        />
      ) : null}
      {lackingOf(came) === null ? <Copy text={copyOf(came)} label="Copy as curl" hotkey="c" /> : null}
      {/* Neither the first button nor a key: anybody may have sent it. */}
      {checked ? null : (
        <Action
          label="Store it unchecked"
          confirm="Its signature is not checked. Store it?"
          sql={retryOne(id, true)}
          disabled={disabled}
          answers
        />
      )}
      {disabled ? <span class="faint">not retried: {lacking}</span> : null}
      <Action
        label="Delete it"
        confirm="Delete it for good?"
        sql={forgetOne(id)}
        done={() => go(['refused'])}
      />
    </div>
  );
}

function Compare({ id }: { readonly id: string }): JSX.Element {
  const [other, setOther] = useState(/^[1-9]\d*$/.test(id) ? String(BigInt(id) - 1n) : '');
  return (
    <form
      class="row-of wrap"
      onSubmit={(event) => {
        event.preventDefault();
        go(['diff', other, id]);
      }}
    >
      <label>
        Compare with refused request{' '}
        <input
          class="narrow"
          inputMode="numeric"
          pattern="\d+"
          required
          value={other}
          onInput={(event) => setOther(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Compare</button>
    </form>
  );
}
