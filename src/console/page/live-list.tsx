/** Outcomes as they arrive, the newest on top, for one table or for all that the role may see. Can be paused. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { briefOf } from '../outcome-summary.ts';
import { isRefused } from '../outcomes.ts';
import type { TableRef } from '../statements.ts';
import { sizeText } from '../visible-text.ts';
import { connected, lines, skipped } from './live.ts';
import type { LiveLine } from './live.ts';
import { Status, Text } from './components.tsx';
import { to } from './route.ts';
import { notReady } from './server.ts';
import { clockText } from './time-zone.ts';

const shownMax = 100;

interface Props {
  readonly only: TableRef | null;
  /** Shown while nothing has arrived. */
  readonly empty: JSX.Element;
  readonly max?: number;
}

export function LiveList({ only, empty, max = shownMax }: Props): JSX.Element {
  const [held, setHeld] = useState<readonly LiveLine[] | null>(null);
  const [failed, setFailed] = useState(false);
  const all = held ?? lines.value;
  const wanted = all.filter(
    (line) =>
      (only === null || (line.schema === only.schema && line.table === only.table)) &&
      (!failed || isRefused(line)),
  );
  const last = held?.at(-1)?.n ?? 0;
  const fresh = held === null ? 0 : lines.value.filter(({ n }) => n > last).length;
  return (
    <section class="live">
      <div class="row-of bar">
        <span class={!connected.value ? 'dot' : notReady.value === null ? 'dot on' : 'dot later'} />
        <span class="grow" role="status">
          {held !== null ? `paused, ${fresh} new` : connected.value ? <State /> : 'not connected, retrying'}
          {skipped.value > 0 ? <span class="faint"> · {skipped.value} more are not shown</span> : null}
        </span>
        <label>
          <input type="checkbox" checked={failed} onChange={() => setFailed(!failed)} /> refused only
        </label>
        <button type="button" class="small" onClick={() => setHeld(held === null ? lines.value : null)}>
          {held === null ? 'Pause' : 'Resume'}
        </button>
      </div>
      {wanted.length === 0 ? (
        <div class="empty">{empty}</div>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Requests as they arrive">
          <table>
            <thead>
              <tr>
                <th>time</th>
                <th>answer</th>
                {only === null ? <th>table</th> : null}
                <th>result</th>
                <th class="right">body</th>
                <th class="right">took</th>
                <th>from</th>
              </tr>
            </thead>
            <tbody>
              {wanted
                .slice(-max)
                .toReversed()
                .map((line) => (
                  <Line key={line.n} line={line} table={only === null} />
                ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Whether requests can be accepted at this second. */
function State(): JSX.Element {
  if (notReady.value === null) return <>live</>;
  return (
    <>
      live, but no request can be accepted: <Text of={notReady.value} max={200} />
    </>
  );
}

function Line({ line, table }: { readonly line: LiveLine; readonly table: boolean }): JSX.Element {
  const { atMs, status, code, bytes, ms, address } = line;
  return (
    <tr class="fresh">
      <td class="mono">{clockText(atMs)}</td>
      <td>
        <Status status={status} code={code} />
      </td>
      {table ? (
        <td>
          {line.table === '' ? (
            <span class="faint">no table</span>
          ) : (
            <a href={to(['endpoint', line.schema, line.table])}>
              <Text of={line.table} max={80} />
            </a>
          )}
        </td>
      ) : null}
      <td class="tight">
        <What line={line} />
      </td>
      <td class="right mono">{bytes === null ? '' : sizeText(bytes)}</td>
      <td class="right mono">{ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms</td>
      <td class="mono">{address}</td>
    </tr>
  );
}

/** The result, which leads to the request beside the list of all. */
function What({ line }: { readonly line: LiveLine }): JSX.Element {
  const { schema, table, id } = line;
  return (
    <a data-row href={to(['requests'], { schema, table, open: id })}>
      {briefOf({ ...line, reason: null, cause: null, sender: null })}
    </a>
  );
}
