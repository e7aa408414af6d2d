/**
 * The newest rows of an endpoint's table, read again when a request has arrived, and from time to time, because rows arrive through other
 * doors as well. A large table without a fitting index is read only when somebody asks for it. If the values are larger than an
 * answer may be, their beginnings are shown.
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  indexFor,
  isCheap,
  newestMax,
  newestRows,
  newestStarts,
  orderOf,
  readOrder,
} from '../newest-rows.ts';
import type { RowOrder } from '../newest-rows.ts';
import { sizeText } from '../shown.ts';
import type { TableRef } from '../statements.ts';
import { keyOf, lastSeen } from './live.ts';
import { useLoaded, useRows } from './load.ts';
import { Code, Listing, Skeleton, Sql, Text, Wrong } from './parts.tsx';
import { look } from './server.ts';
import { Result } from './value.tsx';

export function Rows({ of }: { readonly of: TableRef }): JSX.Element {
  const loaded = useRows(readOrder(of), 15_000);
  return (
    <Listing loaded={loaded} empty={<>There is no such table.</>}>
      {([row]) =>
        row === undefined ? null : <Ordered of={of} order={orderOf(row)} changed={loaded.refresh} />
      }
    </Listing>
  );
}

interface Props {
  readonly of: TableRef;
  readonly order: RowOrder;
  readonly changed: () => void;
}

function Ordered(props: Props): JSX.Element {
  const { of, order } = props;
  const [whole, setWhole] = useState(false);
  const index = indexFor(of, order);
  if (whole || isCheap(order)) return <Newest {...props} />;
  return (
    <div class="empty">
      <p>
        Finding the newest rows would read the whole table, {sizeText(order.bytes)}:{' '}
        {index === null
          ? 'it has no column with the time of arrival, and no key that grows.'
          : 'no index has the order of their arrival. With this one it takes milliseconds:'}
      </p>
      {index === null ? null : <Code text={index} />}
      <button type="button" onClick={() => setWhole(true)}>
        Read the whole table
      </button>
    </div>
  );
}

/** What is read after an answer that was too large. */
const steps = [
  { starts: false, max: newestMax },
  { starts: true, max: newestMax },
  { starts: true, max: 5 },
  { starts: true, max: 1 },
] as const;

function Newest({ of, order, changed }: Props): JSX.Element {
  const [at, setAt] = useState(0);
  const { starts, max } = steps[at] ?? steps[0];
  const sql = (starts ? newestStarts : newestRows)(of, order, max);
  const { value, failure, refresh } = useLoaded(
    sql,
    (options) => look(sql, options),
    isCheap(order) ? 15_000 : 0,
  );
  const seen = Math.floor((lastSeen.value.get(keyOf(of.schema, of.table))?.atMs ?? 0) / 1_000);
  const less = failure?.info.code === 'answer_too_large' && at < steps.length - 1;
  useEffect(() => {
    if (isCheap(order)) refresh();
  }, [seen]);
  useEffect(() => {
    if (less) setAt(at + 1);
  }, [less]);
  const table = value?.tables.at(-1);
  return (
    <>
      <p class="faint">
        {order.column === null ? (
          'The newest transactions first: the table has no column with the time of arrival, and no key that grows.'
        ) : (
          <>
            Newest first, by <Text of={order.column} max={80} />.
          </>
        )}
        {starts ? ' Large values are cut: the rows are larger than 8 MiB.' : ''}
      </p>
      {failure === null || less ? null : <Wrong failure={failure} />}
      {table === undefined ? (failure === null || less) && <Skeleton /> : null}
      {table?.rows.length === 0 ? <div class="empty">No rows yet.</div> : null}
      {table !== undefined && table.rows.length > 0 ? (
        <Result
          table={{
            ...table,
            columns: table.columns.slice(1),
            rows: table.rows.map((row) => row.slice(1)),
          }}
          ids={table.rows.map(([id]) => id ?? '')}
          {...(starts ? {} : { of })}
          changed={() => {
            changed();
            refresh();
          }}
        />
      ) : null}
      {max < newestMax ? <p class="faint">Only the last {max}: more would exceed 8 MiB.</p> : null}
      <Sql text={sql} />
    </>
  );
}
