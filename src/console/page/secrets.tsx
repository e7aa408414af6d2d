/** Secrets by name: their owners, what uses them, when they were set. No statement shows a value, and neither does this page. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { alterSecret, createSecret, dropSecret, listMax, listSecrets } from '../statements.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { route } from './route.ts';
import { Action, Ago, focused, Listing, Sql } from './components.tsx';
import { SearchField } from './find-text.tsx';
import { Text } from './text.tsx';
import { timeOf } from '../request-rows.ts';

export function Secrets(): JSX.Element {
  const loaded = useRows(listSecrets, 10_000);
  const { query } = route.value;
  const asked = query.get('q') ?? '';
  // Nothing that is signed with the old value gets in as it is, and no question is asked about it, unless another table uses it, too.
  const isRolled = query.get('old') === 'refused';
  const [text, setText] = useState(asked);
  const [chosen, setOpen] = useState<string | null | undefined>(undefined);
  // A link that names a secret, or a table that uses one only, opens it.
  const users =
    asked === '' ? [] : (loaded.value?.filter((row) => usersOf(row).split(', ').includes(asked)) ?? []);
  const named =
    loaded.value?.find((row) => row['name'] === asked) ?? (users.length === 1 ? users[0] : undefined);
  const open = chosen === undefined ? (named === undefined ? null : keyOf(named)) : chosen;
  return (
    <>
      <header class="head">
        <h1>Secrets</h1>
        <SearchField label="Search secrets" placeholder="Name or table" value={text} set={setText} />
        <button type="button" class="primary" onClick={() => setOpen(open === 'new' ? null : 'new')}>
          New secret
        </button>
      </header>
      <p class="faint">A value is sealed before it is stored, and is not shown again.</p>
      {open === 'new' ? <NewSecret done={loaded.reload} /> : null}
      <Listing
        loaded={loaded}
        max={listMax.secrets}
        empty={<>You own no secrets. A new endpoint creates its own.</>}
      >
        {(rows) => (
          <>
            <Table
              rows={rows.filter((row) => isNamed(row, text))}
              toggle={(row) => setOpen(open === keyOf(row) ? null : keyOf(row))}
            />
            {rows
              .filter((row) => keyOf(row) === open)
              .map((row) => (
                <Change
                  key={keyOf(row)}
                  row={row}
                  asks={!isRolled || usersOf(row).includes(', ')}
                  done={loaded.reload}
                />
              ))}
          </>
        )}
      </Listing>
      <Sql text={listSecrets} />
    </>
  );
}

interface TableProps {
  readonly rows: readonly ResultRow[];
  readonly toggle: (row: ResultRow) => void;
}

function Table({ rows, toggle }: TableProps): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Secrets">
      <table class="rows secrets">
        <thead>
          <tr>
            <th>Name</th>
            <th>Owner</th>
            <th>Used by</th>
            <th>Created</th>
            <th>Changed</th>
            <th>
              <span class="unseen">change</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Secret key={keyOf(row)} row={row} toggle={() => toggle(row)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Without the quotation marks of SQL: as links name a table. */
const usersOf = (row: ResultRow): string => (row['used_by'] ?? '').replaceAll('"', '');

const isNamed = (row: ResultRow, text: string): boolean =>
  `${row['name']} ${usersOf(row)} ${row['used_by'] ?? ''}`.toLowerCase().includes(text.trim().toLowerCase());

const keyOf = (row: ResultRow): string => JSON.stringify([row['schema_name'], row['name']]);

function Secret({ row, toggle }: { readonly row: ResultRow; readonly toggle: () => void }): JSX.Element {
  return (
    <tr>
      <td>
        {row['schema_name'] === 'public' ? null : <Text of={`${row['schema_name']}.`} max={80} />}
        <b>
          <Text of={row['name'] ?? ''} max={80} />
        </b>
      </td>
      <td>
        <Text of={row['owner'] ?? ''} max={80} />
      </td>
      <td>
        {row['used_by'] === null ? (
          <span class="faint">nothing</span>
        ) : (
          <Text of={row['used_by'] ?? ''} max={200} />
        )}
      </td>
      <td>
        <Ago at={timeOf(row['created_at'] ?? null)} />
      </td>
      <td>{row['altered_at'] === null ? '' : <Ago at={timeOf(row['altered_at'] ?? null)} />}</td>
      <td>
        <button type="button" data-row class="small" onClick={toggle}>
          Change
        </button>
      </td>
    </tr>
  );
}

interface ChangeProps {
  readonly row: ResultRow;
  /** Whether requests with the old value may be accepted: then nothing is set without a question. */
  readonly asks: boolean;
  readonly done: () => void;
}

function Change({ row, asks, done }: ChangeProps): JSX.Element {
  const [value, setValue] = useState('');
  const [schema, name] = [row['schema_name'] ?? '', row['name'] ?? ''];
  return (
    <>
      <form class="card" onSubmit={(event) => event.preventDefault()}>
        <h2>
          <Text of={name} max={80} />
        </h2>
        <label>
          New value
          <input
            ref={focused}
            type="password"
            autocomplete="off"
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
        </label>
        <div class="row-of wrap">
          <Action
            label="Set it"
            kind="primary"
            disabled={value === ''}
            confirm={asks ? 'Requests signed with the old one will be refused. Set it?' : null}
            sql={alterSecret(schema, name, value)}
            done={() => {
              setValue('');
              done();
            }}
          />
        </div>
      </form>
      <section class="card danger-card">
        <h2>Dangerous</h2>
        <Action
          label="Drop it"
          kind="danger"
          confirm={`Drop ${name}?`}
          sql={dropSecret(schema, name)}
          done={done}
        />
      </section>
    </>
  );
}

function NewSecret({ done }: { readonly done: () => void }): JSX.Element {
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  return (
    <form class="card" onSubmit={(event) => event.preventDefault()}>
      <label>
        Name
        <input value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label>
        Value
        <input
          type="password"
          autocomplete="off"
          value={value}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      </label>
      <Action
        label="Create"
        kind="primary"
        disabled={name === '' || value === ''}
        sql={createSecret(name, value)}
        done={() => {
          setName('');
          setValue('');
          done();
        }}
      />
    </form>
  );
}
