/**
 * Below the end of the list of one endpoint's requests: those that were stored before Headgate began to remember, as the rows of the table tell, by the
 * time of their arrival (INCLUDE TIMESTAMP), a page at a time. Of a table of another role, whose code a look may run, only when somebody asks for it. A
 * table without such a column, or a large one without an index on it, says so, and what keeps more.
 */
import type { JSX } from 'preact';
import type { Signal } from '@preact/signals';
import { identifier, qualified } from '../quote.ts';
import { earlierArrivals, earlierMax, readArrival } from '../accepted-rows.ts';
import { timeOf } from '../request-rows.ts';
import type { TableRef } from '../statements.ts';
import { digitsText } from '../visible-text.ts';
import { useRows, useRowsIf } from './load.ts';
import type { ResultRow } from './load.ts';
import { Badge, Sql, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { RequestTime, whenText } from './request-time.tsx';
import { to } from './route.ts';

const scanBytesMax = 64 * 1024 * 1024;

interface Props {
  readonly of: TableRef;
  /** How many pages were asked for. */
  readonly pages: Signal<number>;
  /** When those arrived that the list has: they are not shown again. */
  readonly listed: ReadonlySet<number>;
  /** Exclusive. */
  readonly beforeMs: number;
  /** 0: from the first one on. */
  readonly fromMs: number;
}

export function OlderRows({ of, pages, listed, beforeMs, fromMs }: Props): JSX.Element | null {
  const { value, failure } = useRows(readArrival(of.schema, of.table));
  if (failure !== null) return <Wrong failure={failure} />;
  const known = value?.[0];
  if (known === undefined) return null;
  const column = known['name'] ?? null;
  const isCheap = known['indexed'] === 't' || Number(known['bytes'] ?? 0) <= scanBytesMax;
  const isOwn = known['own'] === 't';
  const rows = <a href={to(['endpoint', of.schema, of.table, 'rows'])}>rows of the table</a>;
  const before = `Accepted before ${whenText(beforeMs)}`;
  if (column === null || !isCheap)
    return (
      <p class="looked">
        {before}: {rows},{' '}
        {column === null
          ? 'which has no column with the time of arrival (INCLUDE TIMESTAMP).'
          : 'which is large, and no index has the order of arrival.'}{' '}
        {isOwn ? (
          <a class="button small" href={to(['sql'], { sql: keepsMore(of, column) })}>
            {column === null ? 'Keep it from now on' : 'Make an index'}
          </a>
        ) : null}
      </p>
    );
  if (!isOwn && pages.value === 0)
    return (
      <p class="looked">
        {before}: {rows}.{' '}
        <button type="button" class="small" onClick={() => (pages.value = 1)}>
          Show them here
        </button>
      </p>
    );
  const first = { before: new Date(beforeMs).toISOString(), n: isOwn ? 0 : 1, isFirst: true };
  return <Arrivals of={of} pages={pages} listed={listed} column={column} fromMs={fromMs} {...first} />;
}

const keepsMore = ({ schema, table }: TableRef, column: string | null): string =>
  column === null
    ? `ALTER TABLE ${qualified(schema, table)} INCLUDE TIMESTAMP AS received_at`
    : `CREATE INDEX ON ${qualified(schema, table)} (${identifier(column)})`;

interface ArrivalsProps extends Omit<Props, 'beforeMs'> {
  readonly column: string;
  /** As PostgreSQL writes it. */
  readonly before: string;
  /** The next one is shown if more than so many were asked for. */
  readonly n: number;
  readonly isFirst: boolean;
}

/** One page, and the next ones below it. */
function Arrivals(props: ArrivalsProps): JSX.Element | null {
  const { of, pages, listed, column, fromMs, before, n, isFirst } = props;
  const sql = earlierArrivals(of, column, before, fromMs);
  const { value, failure } = useRowsIf(sql);
  if (failure !== null) return <Wrong failure={failure} />;
  if (value === null) return <p class="looked">Reading the rows of the table …</p>;
  const when = whenText(Date.parse(before) || timeOf(before));
  if (value.length === 0)
    return isFirst ? <p class="looked">The table has no row that arrived before {when}.</p> : null;
  const last = value.at(-1);
  return (
    <>
      {isFirst ? (
        <p class="looked">
          Accepted before {when}, by the rows of the table that are still there: <Sql text={sql} />
        </p>
      ) : null}
      <table class="lines" aria-label={`Accepted before ${when}`}>
        <tbody>
          {value
            .filter((row) => !listed.has(timeOf(row['at'] ?? null)))
            .map((row) => (
              <Arrival key={row['at']} of={of} column={column} row={row} />
            ))}
        </tbody>
      </table>
      {last?.['more'] !== 't' ? null : pages.value > n ? (
        <Arrivals {...props} before={last['at'] ?? ''} n={n + 1} isFirst={false} />
      ) : (
        <p class="looked">
          <button type="button" class="small" onClick={() => (pages.value = n + 1)}>
            {earlierMax} earlier ones
          </button>
        </p>
      )}
    </>
  );
}

interface ArrivalProps {
  readonly of: TableRef;
  readonly column: string;
  readonly row: ResultRow;
}

function Arrival({ of, column, row }: ArrivalProps): JSX.Element {
  const count = row['rows'] ?? '';
  return (
    <tr class="line stored">
      <td class="when">
        <a
          data-row={`row ${row['at']}`}
          href={to(['endpoint', of.schema, of.table, 'rows'], { by: column, at: row['at'] ?? '' })}
        >
          <RequestTime ms={timeOf(row['at'] ?? null)} fine />
        </a>
      </td>
      <td class="answer">
        <Badge kind="good">stored</Badge>
      </td>
      <td class="what">
        <Text
          of={`${row['least'] === 't' ? '≥ ' : ''}${digitsText(count)} ${count === '1' ? 'row' : 'rows'}`}
          max={40}
        />
      </td>
    </tr>
  );
}
