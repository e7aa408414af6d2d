/** Retries of the selected requests, or of all that the filters match: what is asked before, and how Headgate is asked for them. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ListedRequest } from '../api.ts';
import type { KeptFilter } from '../request-filter.ts';
import { isOfKept, isTable, listReplacing, retryMatching, retrySome } from '../retry-statements.ts';
import { Sql, Wrong } from './components.tsx';
import { useRows } from './load.ts';
import { Replacing } from './retry-warning.tsx';
import { Text } from './text.tsx';
import { call, run } from './server.ts';

/** Headgate continues in the background (retry-routes.ts), even if the page is left; RetryProgress shows it. */
export async function retryAllMatching(filter: KeptFilter, force: boolean): Promise<void> {
  await call('retry', { body: { filter, force } });
}

/** Returns what is said of each; outcomes come into their rows within seconds. */
export async function retrySelected(
  rows: readonly ListedRequest[],
  force: boolean,
): Promise<readonly string[]> {
  const { tables } = await run(sqlOf(rows, null, force), true);
  return (tables.at(-1)?.rows ?? []).map(([, words]) => words ?? '');
}

const sqlOf = (rows: readonly ListedRequest[], matching: KeptFilter | null, force: boolean): string =>
  matching === null
    ? retrySome(
        rows.map(({ id }) => id.slice(1)),
        force,
      )
    : retryMatching(matching, force);

interface QuestionProps {
  /** The selected ones. */
  readonly rows: readonly ListedRequest[];
  /** Instead of them, all that it matches. */
  readonly matching: KeptFilter | null;
  readonly count: number;
  readonly retry: () => void;
  readonly close: () => void;
}

/** Asks if rows may be replaced, and otherwise goes on at once. */
export function RetryQuestion({ rows, matching, count, retry, close }: QuestionProps): JSX.Element | null {
  const places = [...new Map(rows.map((row) => [`${row.schema}.${row.table}`, row])).values()];
  const condition = matching === null ? `(${places.map(isTable).join(' OR ')})` : isOfKept(matching);
  const { value, failure } = useRows(listReplacing(condition));
  const isPlain = value?.length === 0;
  useEffect(() => {
    if (isPlain) retry();
  }, [isPlain]);
  if (failure !== null) return <Wrong failure={failure} />;
  if (value === null || isPlain) return null;
  return (
    <div>
      <p>
        <Replacing tables={value} />
      </p>
      <button type="button" class="primary" onClick={retry}>
        Retry {matching === null ? count : `all ${count}`}
      </button>{' '}
      <button type="button" onClick={close}>
        Cancel
      </button>
      <Sql text={sqlOf(rows, matching, false)} />
    </div>
  );
}

/** Nothing that failed its check is stored before the name of its table was typed. */
export function ForceQuestion({ rows, matching, retry, close }: Omit<QuestionProps, 'count'>): JSX.Element {
  const [typed, setTyped] = useState('');
  const tables = matching === null ? [...new Set(rows.map(({ table }) => table))] : [matching.table];
  const [table = ''] = tables;
  return (
    <div>
      <p>
        They go into the table as if their sender had signed them, and had sent them now: where a key decides,
        they replace newer rows. Headgate cannot know whether it did.
      </p>
      {tables.length > 1 || table === '' ? (
        <p>Choose requests of one table first.</p>
      ) : (
        <label>
          To go on, type the name of the table, <Text of={table} max={140} />
          <input value={typed} spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
      )}
      <button
        type="button"
        class="danger"
        disabled={typed === '' || typed !== table || tables.length > 1}
        onClick={retry}
      >
        Store unchecked
      </button>{' '}
      <button type="button" onClick={close}>
        Cancel
      </button>
      <Sql text={sqlOf(rows, matching, true)} />
    </div>
  );
}
