/** What a retry may replace, said before somebody asks for it. */
import type { JSX } from 'preact';
import { isTable, listReplacing } from '../retry-statements.ts';
import type { TableRef } from '../statements.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { Text } from './text.tsx';

/** Beside a retry: that it may replace a newer row, if its table lets the last one win. */
export function AsIfNow({ of }: { readonly of: TableRef }): JSX.Element | null {
  const replacing = useRows(listReplacing(isTable(of))).value ?? [];
  return replacing.length === 0 ? null : (
    <p class="faint">
      <Replacing tables={replacing} />
    </p>
  );
}

/** `tables`: of listReplacing. */
export function Replacing({ tables }: { readonly tables: readonly ResultRow[] }): JSX.Element {
  return (
    <>
      A retry is stored as if the request came now: it replaces the row of the same key, also one that came
      later:{' '}
      {tables.slice(0, 5).map(({ nspname, relname, key }, i) => (
        <span key={`${nspname}.${relname}`}>
          {i === 0 ? '' : ', '}
          <Text of={nspname === 'public' ? (relname ?? '') : `${nspname}.${relname}`} max={130} /> (
          <Text of={key ?? ''} max={130} />)
        </span>
      ))}
      {tables.length > 5 ? ' and others' : ''}. With the option version a table keeps the newer one.
    </>
  );
}
