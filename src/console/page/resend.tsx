/**
 * Sends a request to one of the role's own tables again, unchanged or changed, with a new signature of the table's sender: only
 * through this Headgate's own listener (`/console/api/replay`). The secret never reaches the page.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ReplayRequest, TestAnswer } from '../api.ts';
import { curlOf } from '../curl.ts';
import type { TableRef } from '../statements.ts';
import { urlOf } from './endpoints.tsx';
import { useAsked } from './load.ts';
import { Area, Badge, Code, unlessAway, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { to } from './route.ts';
import { call } from './server.ts';
import { base64Of, bytesOf, textOf } from './value.tsx';
import { headersOf } from './verify.tsx';

interface Props {
  readonly table: TableRef;
  readonly method: string;
  readonly query: string;
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
  /** Whether it has passed the table's check, or the table has none. */
  readonly checked: boolean;
  readonly isOpen: boolean;
}

export function Resend({ table, method, query, headers, body, checked, isOpen }: Props): JSX.Element {
  const whole = textOf(bytesOf(body));
  const [text, setText] = useState(whole ?? '');
  const [lines, setLines] = useState(headers.map(([name, value]) => `${name}: ${value}`).join('\n'));
  const [sign, setSign] = useState(checked);
  const [vouched, setVouched] = useState('');
  const { answer, failure, ask } = useAsked<TestAnswer>();
  const request: ReplayRequest = {
    ...table,
    method,
    query,
    sign,
    checked,
    vouched: sign && !checked ? vouched : '',
    headers: headersOf(lines),
    // A body that is not text is sent unchanged and cannot be edited here.
    body: whole === null ? body : base64Of(new TextEncoder().encode(text)),
  };
  const forges = sign && !checked;
  return (
    <details class="resend" open={isOpen}>
      <summary>Change it, and send it again</summary>
      <div class="form">
        <Area label="Headers, one per line" rows={5} value={lines} change={setLines} />
        {whole === null ? (
          <p class="faint">The body is not text: it is sent unchanged.</p>
        ) : (
          <Area label="Body" rows={8} value={text} change={setText} />
        )}
        <label class="check">
          <input type="checkbox" checked={sign} onChange={() => setSign(!sign)} /> sign again with the secret
          of the table
        </label>
        {forges ? (
          <label class="wrong">
            No check has accepted this request: anybody may have sent it. A new signature makes it pass. To
            sign it all the same, type the name of the table, <Text of={table.table} max={140} />:
            <input
              value={vouched}
              spellcheck={false}
              onInput={(event) => setVouched(event.currentTarget.value)}
            />
          </label>
        ) : null}
        <div class="row-of">
          <button
            type="button"
            class={forges ? 'danger' : 'primary'}
            {...unlessAway(forges && vouched !== table.table)}
            onClick={() => ask(call<TestAnswer>('replay', { body: request }))}
          >
            Send it
          </button>
          <span class="faint">To this Headgate itself. If accepted, it stores a row.</span>
        </div>
        <Code text={copyOf(table, request, text)} />
        {failure === null ? null : <Wrong failure={failure} />}
        {answer === null ? null : <Answered answer={answer} table={table} />}
      </div>
    </details>
  );
}

function copyOf({ schema, table }: TableRef, request: ReplayRequest, body: string): string {
  const { method, query, headers, sign } = request;
  const shown = new TextEncoder().encode(body.slice(0, 10_000));
  const command = curlOf({ method, url: `${urlOf(schema, table)}${query}`, headers, body: shown });
  return `${command}\n${sign ? '# plus the headers of a new signature' : ''}`;
}

/** The listener's answer. */
function Answered({ answer, table }: { readonly answer: TestAnswer; readonly table: TableRef }): JSX.Element {
  const good = answer.status >= 200 && answer.status < 300;
  return (
    <p class={good ? 'verdict good' : 'verdict bad'} role="status">
      Answered <Badge kind={good ? 'good' : 'bad'}>{answer.status}</Badge>{' '}
      <span class="mono">
        <Text of={answer.text} max={300} />
      </span>{' '}
      <a href={to(['endpoint', table.schema, table.table, good ? 'rows' : 'refused'])}>
        {good ? 'the last rows' : 'why?'}
      </a>
    </p>
  );
}
