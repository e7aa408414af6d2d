/** Parts of a request as it arrived: its headers, the check of it step by step, and a command that sends it. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { curlOf } from '../curl.ts';
import type { TableRef } from '../statements.ts';
import { Text } from './text.tsx';
import { me } from './server.ts';
import { bytesOf } from './value.tsx';
import { Explain } from './verify.tsx';

export interface RequestLocation {
  readonly table: TableRef;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: readonly (readonly [string, string])[];
  /** Names of headers that were not kept; `masked` says how they looked. */
  readonly leftOut: readonly string[];
  readonly masked: Readonly<Record<string, unknown>>;
  /** In base64; null: the body was not read. */
  readonly body: string | null;
  /** Of the whole body. */
  readonly bodyBytes: number;
  /** Seconds since 1970. */
  readonly at: string;
}

/** What of its body is not known, as PostgreSQL's `retry_rejected` says it; null: all of it was kept. */
export function lackingOf({ body, bodyBytes }: RequestLocation): string | null {
  if (body === null) return 'its body was not read';
  const kept = bytesOf(body).length;
  return kept < bodyBytes ? `only ${kept} of ${bodyBytes} bytes of its body were kept` : null;
}

export function Headers({
  came: { headers, leftOut, masked },
}: {
  readonly came: RequestLocation;
}): JSX.Element {
  return (
    <table class="headers">
      <tbody>
        {headers.map(([name, value], i) => (
          <tr key={i}>
            <th scope="row">
              <Text of={name} max={200} />
            </th>
            <td class="mono">
              <Text of={value} max={4_000} />
            </td>
          </tr>
        ))}
        {leftOut.map((name) => (
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

/** Headers that were not kept can be entered again: the sender knows them. */
export function ExplainThis({
  came,
  isRefused,
}: {
  readonly came: RequestLocation;
  readonly isRefused: boolean;
}): JSX.Element {
  const { table, headers, leftOut, body, method, at } = came;
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  const more = leftOut.flatMap((name) => {
    const value = given[name] ?? '';
    return value === '' ? [] : [[name, value] as const];
  });
  const notKept = leftOut.filter((name) => (given[name] ?? '') === '');
  const parts = { headers: [...headers, ...more], notKept, body: body ?? '', url: '', method, now: at };
  const lacking = lackingOf(came);
  if (lacking !== null)
    return (
      <p class="faint">
        Its check cannot be explained again: {lacking}.
        {isRefused ? ' The reason above is that of its arrival.' : ''}
      </p>
    );
  return (
    <section class="card">
      <h2>The check, step by step</h2>
      <p class="faint">
        {isRefused ? 'The reason above is that of its arrival. ' : ''}
        This checks it again with the table’s present VALIDATE, as of the time of its arrival.
        {leftOut.length === 0
          ? ''
          : ' Headers with credentials were not kept: paste them from the sender, or leave them empty: what depends on them is then not known.'}
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
      <Explain table={table} parts={parts} label="Explain" isAtOnce />
    </section>
  );
}

const skipped = new Set(['host', 'content-length', 'connection', 'transfer-encoding', 'content-encoding']);

export function copyOf({ method, target, headers, leftOut, body }: RequestLocation): string {
  return curlOf({
    method,
    url: `${me.value?.base ?? ''}${target}`,
    headers: [
      ...headers.filter(([name]) => !skipped.has(name)),
      ...leftOut.map((name) => [name, '…'] as const),
    ],
    body: bytesOf(body ?? ''),
  });
}
