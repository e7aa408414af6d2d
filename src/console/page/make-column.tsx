/** Turns a value of a document into a column of its table: pick its path, see the SQL, run it (`ALTER TABLE … ADD COLUMN`). */
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { makeColumn, nameOf, pathsOf } from '../paths.ts';
import { optionText } from '../visible-text.ts';
import { readOwned } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { useRows } from './load.ts';
import { Action, Code } from './components.tsx';
import { Text } from './text.tsx';

interface Props {
  readonly table: TableRef;
  /** The column of the document, of type jsonb. */
  readonly from: string;
  readonly text: string;
  readonly done: () => void;
}

export function MakeColumn({ table, from, text, done }: Props): JSX.Element | null {
  const paths = useMemo(() => pathsOf(text), [text]);
  const [at, setAt] = useState(0);
  const [name, setName] = useState<string | null>(null);
  const [made, setMade] = useState<string | null>(null);
  const owned = useRows(readOwned(table)).value?.[0]?.['owned'];
  const path = paths[at];
  if (path === undefined || owned !== 't') return null;
  const { keys, kind } = path;
  const column = name ?? nameOf(keys);
  const sql = makeColumn(table, { from, keys, kind, name: column });
  return (
    <details class="make">
      <summary>Make a column of it</summary>
      <div class="form">
        <div class="row-of">
          <label class="grow">
            Value
            <select
              value={String(at)}
              onChange={(event) => {
                setAt(Number(event.currentTarget.value));
                setName(null);
              }}
            >
              {paths.map((it, i) => (
                <option key={i} value={String(i)}>
                  {optionText(`${it.keys.join(' → ')} = ${it.sample}`).slice(0, 160)}
                </option>
              ))}
            </select>
          </label>
          <label>
            Column
            <input
              value={column}
              spellcheck={false}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </label>
        </div>
        <Code text={sql} isSql />
        <p class="faint">
          Existing rows get it, too: PostgreSQL rewrites the table, and requests wait meanwhile. It is NULL if
          the document has another kind of value there.
        </p>
        <Action
          label="Add the column"
          confirm="Rewrite the table?"
          disabled={column === ''}
          sql={sql}
          done={() => {
            setMade(column);
            done();
          }}
        />
        {made === null ? null : (
          <p role="status">
            <b>
              <Text of={made} max={80} />
            </b>{' '}
            is now a column.
          </p>
        )}
      </div>
    </details>
  );
}
