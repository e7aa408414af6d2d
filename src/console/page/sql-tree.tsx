/** Beside the editor: what the role may read, with its columns; saved statements; those that ran. A click puts text into the editor and runs nothing. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { identifier, qualified } from '../quote.ts';
import { aboutText, digitsText } from '../visible-text.ts';
import { listTree, readColumns, treeMax } from '../relation-statements.ts';
import { Name } from './address.tsx';
import { useRows, useRowsIf, useSettled } from './load.ts';
import type { ResultRow } from './load.ts';
import { Skeleton, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { forget, forgetHistory, history, recall, saved } from './sql-history.ts';
import type { Ran } from './sql-history.ts';

interface Props {
  /** Takes text to insert at the caret. */
  readonly insert: (text: string) => void;
  /** Shows a statement in a tab, of this name if it has one. */
  readonly replace: (sql: string, name?: string) => void;
}

const tabs = ['Tables', 'Saved', 'History'] as const;

export function SqlTree({ insert, replace }: Props): JSX.Element {
  const [tab, setTab] = useState<(typeof tabs)[number]>('Tables');
  useEffect(recall, [tab]);
  return (
    <aside aria-label="Tables, saved statements and history">
      <div class="tabs" role="group" aria-label="Beside the editor">
        {tabs.map((it) => (
          <button
            key={it}
            type="button"
            class="small quiet"
            aria-pressed={tab === it}
            onClick={() => setTab(it)}
          >
            {it} {it === 'Saved' && saved.value.length > 0 ? saved.value.length : ''}
          </button>
        ))}
      </div>
      {tab === 'Tables' ? (
        <>
          <Tables insert={insert} />
          <Recent replace={replace} />
        </>
      ) : null}
      {tab === 'Saved' ? <SavedOnes replace={replace} /> : null}
      {tab === 'History' ? <Before replace={replace} /> : null}
    </aside>
  );
}

function Tables({ insert }: Pick<Props, 'insert'>): JSX.Element {
  const [text, setText] = useState('');
  const loaded = useRows(listTree(useSettled(text.trim())));
  // While others are looked for, the previous ones stay.
  const shown = useRef<readonly ResultRow[]>([]);
  const rows = loaded.value ?? shown.current;
  shown.current = rows;
  const schemas = [...new Set(rows.map((row) => row['nspname'] ?? ''))];
  const found = Number(rows[0]?.['found'] ?? 0);
  return (
    <>
      <input
        type="search"
        aria-label="Table or column"
        placeholder="Table or column"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {loaded.failure === null ? null : <Wrong failure={loaded.failure} />}
      {loaded.value === null && loaded.failure === null && rows.length === 0 ? <Skeleton /> : null}
      {schemas.map((schema) => (
        <details key={schema} class="tree" open={schema !== 'headgate'}>
          <summary>
            <b class="grow">
              <Text of={schema} max={80} />
            </b>
            <span class="faint">
              {digitsText(rows.find((row) => row['nspname'] === schema)?.['of_schema'] ?? '')}
            </span>
          </summary>
          <ul>
            {rows
              .filter((row) => row['nspname'] === schema)
              .map((row) => (
                <Table key={row['relname']} row={row} insert={insert} />
              ))}
          </ul>
        </details>
      ))}
      {found > treeMax ? (
        <p class="faint">{digitsText(String(found - treeMax))} more: type to find them</p>
      ) : null}
      {loaded.value !== null && rows.length === 0 ? (
        <p class="faint">No table or column is called so.</p>
      ) : null}
    </>
  );
}

function Table({ row, insert }: { readonly row: ResultRow } & Pick<Props, 'insert'>): JSX.Element {
  const [open, setOpen] = useState(false);
  const ref = { schema: row['nspname'] ?? '', table: row['relname'] ?? '' };
  const columns = useRowsIf(open ? readColumns(ref) : null).value ?? [];
  const name = ref.schema === 'public' ? identifier(ref.table) : qualified(ref.schema, ref.table);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary title={ref.table}>
          <span class="grow">
            <Name of={ref.table} max={22} />
          </span>
          <span class="faint">{row['relkind'] === 'v' ? 'view' : aboutText(row['rows_estimate'])}</span>
        </summary>
        <ul>
          <li>
            <button type="button" onClick={() => insert(name)}>
              <span class="grow faint">insert the name</span>
            </button>
          </li>
          {columns.map((column) => (
            <li key={column['attname']}>
              <button type="button" onClick={() => insert(identifier(column['attname'] ?? ''))}>
                <span class="grow">
                  <Text of={column['attname'] ?? ''} max={80} />
                </span>
                <span class="faint">
                  {column['type']}
                  {column['key'] === 't' ? ' · key' : ''}
                </span>
              </button>
            </li>
          ))}
        </ul>
      </details>
    </li>
  );
}

/** How many of those that ran stand below the tables. */
const recentMax = 5;

function Recent({ replace }: Pick<Props, 'replace'>): JSX.Element | null {
  if (history.value.length === 0) return null;
  return (
    <>
      <h2 class="faint recent">Recent</h2>
      <Statements of={history.value.slice(0, recentMax)} replace={replace} />
    </>
  );
}

function Statements({ of, replace }: { readonly of: readonly Ran[] } & Pick<Props, 'replace'>): JSX.Element {
  return (
    <ul class="list">
      {of.map(({ text, said }) => (
        <li key={text}>
          <button type="button" class="recall" title={text} onClick={() => replace(text)}>
            <span class="grow">
              <Text of={text.replaceAll(/\s+/g, ' ')} max={120} />
            </span>
            <span class={said === 'error' ? 'bad-words' : 'faint'}>
              <Text of={said} max={24} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function SavedOnes({ replace }: Pick<Props, 'replace'>): JSX.Element {
  if (saved.value.length === 0)
    return <p class="faint">Nothing is saved yet. “Save” keeps a statement in this browser.</p>;
  return (
    <ul class="list">
      {saved.value.map(({ name, text }) => (
        <li key={name} class="row-of">
          <button type="button" class="recall" title={text} onClick={() => replace(text, name)}>
            <span class="grow">
              <Text of={name} max={80} />
            </span>
          </button>
          <button
            type="button"
            class="small quiet"
            aria-label={`Forget ${name}`}
            onClick={() => forget('saved', name)}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}

function Before({ replace }: Pick<Props, 'replace'>): JSX.Element {
  if (history.value.length === 0)
    return (
      <p class="faint">
        Statements that ran are remembered in this browser, without those that contain a secret.
      </p>
    );
  return (
    <>
      <Statements of={history.value} replace={replace} />
      <button type="button" class="small" onClick={() => forgetHistory()}>
        Forget all of it
      </button>
    </>
  );
}
