/** One request as a line of a list, and its parts that other views show, too. */
import type { JSX } from 'preact';
import type { ListedRequest } from '../api.ts';
import { briefOf } from '../outcome-summary.ts';
import { resultOf } from '../request-filter.ts';
import { sizeText } from '../visible-text.ts';
import { isSelectable } from './list-state.ts';
import { Badge } from './components.tsx';
import { Text } from './text.tsx';
import { RequestTime } from './request-time.tsx';

export const toExplain = (row: ListedRequest, senderName: (id: string) => string) => ({
  ...row,
  sender: row.sender === undefined ? null : senderName(row.sender),
});

const kinds = { stored: 'good', spooled: 'info', refused: 'bad', later: 'warn', handshake: 'plain' } as const;

export function AnswerBadge({ row }: { readonly row: Pick<ListedRequest, 'status' | 'code'> }): JSX.Element {
  // The id of another delivery: answered 2xx, and kept for the owner to decide.
  const kind = row.code === 'delivery_differs' && row.status < 300 ? 'warn' : kinds[resultOf(row)];
  return <Badge kind={kind}>{row.status === 0 ? 'WS' : row.status}</Badge>;
}

/** Without a column for events if none of them has one. */
export const linesOf = (rows: readonly ListedRequest[]): string =>
  rows.some(({ event }) => event !== undefined) ? 'lines' : 'lines no-event';

/** The headings of a `Line`, without that of its checkbox. */
export function Names(): JSX.Element {
  return (
    <>
      <th class="when">Time</th>
      <th class="answer">Answer</th>
      <th class="to">Endpoint</th>
      <th class="event">Event</th>
      <th class="what">What became of it</th>
      <th class="size right">Body</th>
      <th class="took right">Took</th>
      <th class="from">From</th>
    </>
  );
}

interface LineProps {
  readonly row: ListedRequest;
  readonly href: string;
  readonly isOpen?: boolean;
  readonly isSelected?: boolean;
  /** Without it there is nothing to select. */
  readonly select?: (on: boolean, far: boolean) => void;
  readonly show: (id: string) => void;
  readonly focus?: () => void;
  readonly senderName: (id: string) => string;
  /** With milliseconds. */
  readonly fine: boolean;
  /** Of a kind that is kept, and not kept. */
  readonly isLost?: boolean;
}

export function Line({
  row,
  fine,
  href,
  isOpen = false,
  isSelected = false,
  select,
  show,
  focus,
  senderName,
  isLost: lost = false,
}: LineProps): JSX.Element {
  const brief = row.retry === 'committed' ? 'Retried: stored' : briefOf(toExplain(row, senderName));
  const result = row.retry === 'committed' ? 'stored' : resultOf(row);
  return (
    <tr
      class={`line ${result} ${isSelected ? 'selected' : ''}`}
      aria-current={isOpen ? 'true' : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.target instanceof HTMLInputElement)
          return;
        event.preventDefault();
        show(row.id);
      }}
    >
      {select === undefined ? null : <Choice row={row} isSelected={isSelected} select={select} />}
      <td class="when">
        <a data-row={row.id} href={href} onFocus={focus}>
          <RequestTime ms={row.arrivedAtMs} fine={fine} />
        </a>
      </td>
      <td class="answer">
        <AnswerBadge row={row} />
      </td>
      <td class="to">
        {row.table === '' ? (
          <span class="faint">none</span>
        ) : (
          <Middle text={row.table} title={`${row.schema}.${row.table}`} />
        )}
      </td>
      <td class="event">
        {row.event === undefined ? <span class="faint">—</span> : <Text of={row.event} max={60} />}
      </td>
      <td class="what" title={brief}>
        {row.event === undefined ? null : (
          <span class="on-phone">
            <Text of={row.event} max={60} /> ·{' '}
          </span>
        )}
        {lost ? <span class="faint">not kept · </span> : null}
        <Text of={brief} max={80} />
      </td>
      <td class="size right">{row.bytes === null ? '' : sizeText(row.bytes)}</td>
      <td class="took right">{row.ms === 0 ? '' : msText(row.ms)}</td>
      <td class="from">
        <Text of={row.address} max={60} />
      </td>
    </tr>
  );
}

function Choice({
  row,
  isSelected,
  select,
}: Required<Pick<LineProps, 'row' | 'isSelected' | 'select'>>): JSX.Element {
  if (!isSelectable(row)) return <td class="pick" />;
  return (
    <td class="pick">
      <input
        type="checkbox"
        tabIndex={-1}
        aria-label={`Select the request of ${new Date(row.arrivedAtMs).toISOString()}`}
        checked={isSelected}
        onClick={(event) => select(event.currentTarget.checked, event.shiftKey)}
      />
    </td>
  );
}

export const msText = (ms: number): string => `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;

const nameMax = 24;

/** A long name loses its middle: beginnings and ends tell tables apart. */
function Middle({ text, title = text }: { readonly text: string; readonly title?: string }): JSX.Element {
  const chars = Array.from(text);
  const half = nameMax / 2 - 1;
  const shown =
    chars.length <= nameMax ? text : `${chars.slice(0, half).join('')}…${chars.slice(-half).join('')}`;
  return (
    <span title={title}>
      <Text of={shown} />
    </span>
  );
}
