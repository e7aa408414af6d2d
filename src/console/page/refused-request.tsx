/** One refused request: why, what came, what was left out of it, the steps of its check, and another attempt. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shellWord } from '../quote.ts';
import { forgetOne, readRefused, retryOne } from '../statements.ts';
import { useRows } from './load.ts';
import type { Row } from './load.ts';
import { Action, Ago, Badge, Copy, Listing, Sql, Text, timeOf } from './parts.tsx';
import { LooksLike } from './looks-like.tsx';
import { Resend } from './resend.tsx';
import { Outcome } from './retry-all.tsx';
import { go, to } from './route.ts';
import { me } from './server.ts';
import { Body, bytesOf } from './value.tsx';
import { Explain } from './verify.tsx';

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
            There is no such request: it is not of a table of yours, or it is forgotten.{' '}
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

function Request({ row }: { readonly row: Row }): JSX.Element {
  const id = row['id'] ?? '';
  const ref = { schema: row['schema_name'] ?? '', table: row['table_name'] ?? '' };
  const headers = Object.entries(JSON.parse(row['headers'] ?? '{}') as Record<string, string | string[]>);
  const pairs = headers.flatMap(([name, value]) =>
    [value].flat().map((it): readonly [string, string] => [name, it]),
  );
  const body = row['body_base64'] ?? null;
  const checked = row['authenticated'] === 't';
  return (
    <>
      <p class="verdict bad">
        <Badge kind="bad">
          {row['status']} {row['code']}
        </Badge>{' '}
        <Text of={row['reason'] ?? ''} max={4_000} />
      </p>
      <p class="faint">
        <a href={to(['endpoint', ref.schema, ref.table, 'refused'])}>
          <Text of={`${ref.schema}.${ref.table}`} max={140} />
        </a>
        {' · '}
        <Ago at={timeOf(row['received_at'] ?? null)} /> · from {row['remote_address']} ·{' '}
        {checked ? 'VALIDATE accepted it, or there is none' : 'VALIDATE did not accept it'}
      </p>
      <Actions row={row} pairs={pairs} checked={checked} />
      {row['retry_outcome'] === null ? null : (
        <p role="status">
          Tried again: <Outcome outcome={row['retry_outcome'] ?? ''} />{' '}
          <span class="faint">
            <Text of={row['retry_reason'] ?? ''} max={2_000} />
          </span>
        </p>
      )}
      <h2>Request</h2>
      <p class="mono">
        {row['method']} <Text of={row['target'] ?? ''} max={2_000} />
      </p>
      <Headers pairs={pairs} row={row} />
      {body === null ? <p class="faint">Its body was not read.</p> : <Body base64={body} />}
      {body !== null && bytesOf(body).length < Number(row['body_bytes'] ?? 0) ? (
        <p class="faint">Only the beginning was kept; all of it were {row['body_bytes']} bytes.</p>
      ) : null}
      <LooksLike table={ref} headers={[...pairs.map(([name]) => name), ...leftOutOf(row)]} />
      {checked ? null : <ExplainThis row={row} pairs={pairs} body={body ?? ''} />}
      {body === null ? null : (
        <Resend
          table={ref}
          method={row['method'] ?? 'POST'}
          query={queryOf(row['target'] ?? '')}
          headers={pairs}
          body={body}
        />
      )}
      <Compare id={id} />
    </>
  );
}

interface ActionsProps {
  readonly row: Row;
  readonly pairs: readonly (readonly [string, string])[];
  readonly checked: boolean;
}

function Actions({ row, pairs, checked }: ActionsProps): JSX.Element {
  const id = row['id'] ?? '';
  return (
    <div class="row-of wrap">
      <Action
        label={checked ? 'Retry' : 'Store it unchecked'}
        hotkey="r"
        kind="primary"
        confirm={checked ? null : 'Its signature is not checked. Store it?'}
        sql={retryOne(id, !checked)}
      />
      <Copy text={curlOf(row, pairs)} label="Copy as curl" hotkey="c" />
      <Action
        label="Forget it"
        confirm="Forget it for good?"
        sql={forgetOne(id)}
        done={() => go(['refused'])}
      />
    </div>
  );
}

/** With its `?`; what was kept of it. */
function queryOf(target: string): string {
  const at = target.indexOf('?');
  return at === -1 ? '' : target.slice(at);
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

function leftOutOf(row: Row): readonly string[] {
  return JSON.parse(row['headers_left_out'] ?? '[]') as string[];
}

function maskedOf(row: Row): Readonly<Record<string, unknown>> {
  return JSON.parse(row['headers_masked'] ?? '{}') as Record<string, unknown>;
}

interface HeadersProps {
  readonly pairs: readonly (readonly [string, string])[];
  readonly row: Row;
}

function Headers({ pairs, row }: HeadersProps): JSX.Element {
  const masked = maskedOf(row);
  return (
    <table class="headers">
      <tbody>
        {pairs.map(([name, value], i) => (
          <tr key={i}>
            <th scope="row">
              <Text of={name} max={200} />
            </th>
            <td class="mono">
              <Text of={value} max={4_000} />
            </td>
          </tr>
        ))}
        {leftOutOf(row).map((name) => (
          <tr key={`left ${name}`}>
            <th scope="row">
              <Text of={name} max={200} />
            </th>
            <td>
              <span class="badge plain">not kept</span>{' '}
              <span class="faint">
                <Text of={wordsOf(masked[name])} max={400} />
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function wordsOf(masked: unknown): string {
  if (masked === undefined) return '';
  return typeof masked === 'string' ? masked : JSON.stringify(masked);
}

interface ExplainProps {
  readonly row: Row;
  readonly pairs: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Headers that were not kept can be given again: they are known to the sender. */
function ExplainThis({ row, pairs, body }: ExplainProps): JSX.Element {
  const leftOut = leftOutOf(row);
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  const more = leftOut.flatMap((name) => {
    const value = given[name] ?? '';
    return value === '' ? [] : [[name, value] as const];
  });
  const parts = {
    headers: [...pairs, ...more],
    body,
    url: '',
    method: row['method'] ?? '',
    now: row['at'] ?? '',
  };
  return (
    <section class="card">
      <h2>Explain this very request</h2>
      <p class="faint">
        Checked again by what guards the table now, at the time of its arrival. Why it was refused then stands
        on top.
        {leftOut.length === 0
          ? ''
          : ' Headers with credentials were not kept: paste them from the sender, or leave them out.'}
      </p>
      {leftOut.map((name) => (
        <label key={name}>
          <Text of={name} max={200} />
          <input
            value={given[name] ?? ''}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setGiven({ ...given, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <Explain
        table={{ schema: row['schema_name'] ?? '', table: row['table_name'] ?? '' }}
        parts={parts}
        label="Explain"
      />
    </section>
  );
}

function curlOf(row: Row, pairs: readonly (readonly [string, string])[]): string {
  const skipped = new Set(['host', 'content-length', 'connection', 'transfer-encoding', 'content-encoding']);
  const body = new TextDecoder().decode(bytesOf(row['body_base64'] ?? ''));
  return [
    `curl -X ${row['method'] ?? 'POST'} ${shellWord(`${me.value?.base ?? ''}${row['target'] ?? ''}`)}`,
    ...pairs
      .filter(([name]) => !skipped.has(name))
      .map(([name, value]) => `-H ${shellWord(`${name}: ${value}`)}`),
    ...leftOutOf(row).map((name) => `-H ${shellWord(`${name}: …`)}`),
    `--data-binary ${shellWord(body)}`,
  ].join(' \\\n  ');
}
