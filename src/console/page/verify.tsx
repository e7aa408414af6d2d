/**
 * Why a request is refused, or whether it would be accepted: EXPLAIN VALIDATE as green and red steps. Values that are secret,
 * or computed from a secret, do not leave the server: they appear as `********`.
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { SqlResponse } from '../api.ts';
import { explainValidate } from '../request-statements.ts';
import { stepsInWords } from '../explained-check.ts';
import type { ExplainParts } from '../request-statements.ts';
import type { TableRef } from '../statements.ts';
import { rowsOf, useAsked } from './load.ts';
import type { ResultRow } from './load.ts';
import { Area, Badge, Sql, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { look } from './server.ts';
import { base64Of } from './value.tsx';

interface StepsProps {
  readonly table: TableRef;
  readonly parts: ExplainParts;
  readonly label: string;
  /** Without waiting for the button. */
  readonly isAtOnce?: boolean;
}

/** A button that explains, and its result. */
export function Explain({ table, parts, label, isAtOnce = false }: StepsProps): JSX.Element {
  const { answer, failure, ask } = useAsked<SqlResponse>();
  const sql = explainValidate(table, parts);
  useEffect(() => {
    if (isAtOnce) ask(look(sql, { auto: true }));
  }, []);
  return (
    <>
      <div class="action">
        <button type="button" class="primary" onClick={() => ask(look(sql))}>
          {label}
        </button>
        <Sql text={sql} />
      </div>
      {failure === null ? null : <Wrong failure={failure} />}
      {answer === null ? null : <Steps steps={rowsOf(answer.tables.at(-1))} />}
    </>
  );
}

function Steps({ steps }: { readonly steps: readonly ResultRow[] }): JSX.Element {
  const [verdict, ...rest] = steps;
  const words = stepsInWords(
    rest.map((row) => ({ expression: row['expression'] ?? '', value: row['value'] ?? '' })),
  );
  const word = verdict?.['expression'] ?? '';
  const kind = word === 'accepted' ? 'good' : word === 'not known' ? 'plain' : 'bad';
  return (
    <div class="steps" role="status">
      <p class={`verdict ${kind}`}>
        <Badge kind={kind}>{word}</Badge> <Text of={verdict?.['value'] ?? ''} max={2_000} />
      </p>
      {words.length === 0 ? null : (
        <ul class="in-words">
          {words.map(({ kind: of, what, detail }) => (
            <li key={what} class={of}>
              <span class="sign" aria-hidden="true">
                {signs[of]}
              </span>
              <div>
                <b>
                  <Text of={what} max={300} />
                </b>
                <span class="faint">
                  <Text of={detail} max={300} />
                </span>
              </div>
            </li>
          ))}
        </ul>
      )}
      <details class="words" open={words.length === 0}>
        <summary>Each part of the expression</summary>
        <Parts rows={rest} />
      </details>
    </div>
  );
}

const signs = { good: '✓', bad: '×', open: '○' } as const;

function Parts({ rows }: { readonly rows: readonly ResultRow[] }): JSX.Element {
  return (
    <ol>
      {rows.map((step, i) => (
        <li key={i} class={kindOf(step['value'] ?? '')}>
          <code>
            <Text of={step['expression'] ?? ''} max={600} />
          </code>
          <span class="mono">
            <Text of={step['value'] ?? ''} max={600} />
          </span>
        </li>
      ))}
    </ol>
  );
}

function kindOf(value: string): string {
  if (value === 'true') return 'good';
  if (value === 'false' || value === 'NULL' || value.startsWith('error')) return 'bad';
  return value === 'not evaluated' || value === 'not kept' ? 'faint' : '';
}

/** `Name: value`, one per line, as in a request. */
export function headersOf(text: string): readonly (readonly [string, string])[] {
  return text.split('\n').flatMap((line) => {
    const at = line.indexOf(':');
    return at <= 0 ? [] : [[line.slice(0, at).trim(), line.slice(at + 1).trim()] as const];
  });
}

export function Verify({ table }: { readonly table: TableRef }): JSX.Element {
  const [headers, setHeaders] = useState('Content-Type: application/json\n');
  const [body, setBody] = useState('{}');
  const [url, setUrl] = useState('');
  const [now, setNow] = useState('');
  const bytes = base64Of(new TextEncoder().encode(body));
  return (
    <div class="form">
      <p class="faint">
        Paste a request as its sender shows it. Every byte of the body counts, including a line break at the
        end. To explain a request that was refused, open it under Requests.
      </p>
      <Area label="Headers, one per line" rows={5} value={headers} change={setHeaders} />
      <Area label="Body" rows={6} value={body} change={setBody} />
      <div class="row-of">
        <label class="grow">
          URL, if the sender signs it
          <input value={url} placeholder="https://…" onInput={(event) => setUrl(event.currentTarget.value)} />
        </label>
        <label>
          Time of arrival
          <input value={now} placeholder="now" onInput={(event) => setNow(event.currentTarget.value)} />
        </label>
      </div>
      <Explain
        table={table}
        label="Explain"
        parts={{ headers: headersOf(headers), body: bytes, url, now, method: '' }}
      />
    </div>
  );
}
