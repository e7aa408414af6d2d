/** Compares two refused requests: the differences of their heads and of their bodies, which are indented first. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { diffLines } from '../diff.ts';
import type { DiffLine } from '../diff.ts';
import { prettyJson } from '../pretty.ts';
import { readRefused } from '../statements.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { Skeleton, Sql, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { to } from './route.ts';
import { bytesOf, textOf } from './value.tsx';

const linesMax = 2_000;
/** Equal lines shown around a difference. */
const around = 3;

export function Diff({ first, second }: { readonly first: string; readonly second: string }): JSX.Element {
  const [a, b] = [useRows(readRefused(first)), useRows(readRefused(second))];
  const [one, other] = [a.value?.[0], b.value?.[0]];
  const gone = (a.value !== null && one === undefined) || (b.value !== null && other === undefined);
  const failure = a.failure ?? b.failure;
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['requests'], { result: 'refused' })}>Refused</a> <span class="faint">/</span>{' '}
          <a href={to(['requests', `r${first}`])}>
            <Text of={first} max={20} />
          </a>{' '}
          and{' '}
          <a href={to(['requests', `r${second}`])}>
            <Text of={second} max={20} />
          </a>
        </h1>
      </header>
      {failure === null ? null : <Wrong failure={failure} />}
      {gone ? (
        <div class="empty">One of them cannot be found: its table is not yours, or it is no longer kept.</div>
      ) : null}
      {one !== undefined && other !== undefined ? <Differences one={one} other={other} /> : null}
      {failure === null && !gone && (one === undefined || other === undefined) ? <Skeleton /> : null}
      <Sql text={`${readRefused(first)};\n\n${readRefused(second)}`} />
    </>
  );
}

function linesOf(row: ResultRow): { readonly head: readonly string[]; readonly body: readonly string[] } {
  const headers = Object.entries(JSON.parse(row['headers'] ?? '{}') as Record<string, string | string[]>);
  const leftOut = JSON.parse(row['headers_left_out'] ?? '[]') as string[];
  const text = textOf(bytesOf(row['body_base64'] ?? ''));
  const pretty =
    prettyJson(text ?? '')
      ?.map((token) => token.text)
      .join('') ??
    text ??
    row['body_base64'] ??
    '';
  return {
    head: [
      `${row['method']} ${row['target']}`,
      `${row['status']} ${row['code']}: ${row['reason']}`,
      ...headers.flatMap(([name, value]) => [value].flat().map((it) => `${name}: ${it}`)),
      ...leftOut.map((name) => `${name}: (not kept)`),
    ],
    body: pretty.split('\n').slice(0, linesMax),
  };
}

function Differences({ one, other }: { readonly one: ResultRow; readonly other: ResultRow }): JSX.Element {
  const [first, second] = useMemo(() => [linesOf(one), linesOf(other)] as const, [one, other]);
  return (
    <>
      <h2>Head</h2>
      <Lines lines={diffLines(first.head, second.head)} />
      <h2>Body</h2>
      <Lines lines={diffLines(first.body, second.body)} />
    </>
  );
}

const signs = { both: ' ', first: '−', second: '+' } as const;

function Lines({ lines }: { readonly lines: readonly DiffLine[] }): JSX.Element {
  if (lines.every((line) => line.in === 'both')) return <p class="faint">No differences.</p>;
  const near = (i: number): boolean =>
    lines.slice(Math.max(0, i - around), i + around + 1).some((line) => line.in !== 'both');
  const shown = lines.map((line, i) => ({ ...line, i })).filter(({ i }) => near(i));
  return (
    <div class="code diff">
      <pre tabIndex={0}>
        {shown.map((line, n) => (
          <div key={line.i} class={line.in}>
            {n > 0 && (shown[n - 1]?.i ?? 0) < line.i - 1 ? <span class="faint">{'…\n'}</span> : null}
            {signs[line.in]} <Text of={line.text} max={2_000} />
          </div>
        ))}
      </pre>
    </div>
  );
}
