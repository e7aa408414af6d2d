/** The database of this tab, and the others that the role may connect to: choosing one goes to its overview, with a session of its own. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { listDatabases } from '../statements.ts';
import { useRows } from './load.ts';
import { focused, Wrong } from './components.tsx';
import { Icon } from './icons.tsx';
import { Choice, Menu } from './menu.tsx';
import { Text } from './text.tsx';
import { route, to } from './route.ts';
import { enterDatabase, me } from './server.ts';
import type { Failure } from './server.ts';

export function Databases({ current, engine }: { readonly current: string; readonly engine: string }) {
  return (
    <Menu
      kind="line-button database"
      label={
        <>
          <span class="grow">
            <span class="unseen">Database</span>
            <b>
              <Text of={current} max={40} />
            </b>
            <span class="faint" title={engine}>
              {engine.replace(/^embedded | of HEADGATE.*$/, '')}
            </span>
          </span>
          <Icon name="down" />
        </>
      }
    >
      {(close) => <Names current={current} close={close} />}
    </Menu>
  );
}

/** From how many on a name is looked for. */
const searchedMin = 8;

function Names({ current, close }: { readonly current: string; readonly close: () => void }): JSX.Element {
  const [text, setText] = useState('');
  const { value, failure } = useRows(listDatabases);
  const names = value?.map((row) => row['datname'] ?? '') ?? [];
  const choose = (name: string): void => {
    close();
    if (name !== current) location.hash = to([], {}, name);
  };
  return (
    <>
      {failure === null ? null : <Wrong failure={failure} />}
      {names.length < searchedMin ? null : (
        <input
          type="search"
          aria-label="Find a database"
          placeholder="Find a database"
          value={text}
          ref={focused}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      )}
      {names
        .filter((name) => name.includes(text.trim()))
        .map((name) => (
          <Choice key={name} on={name === current} choose={() => choose(name)}>
            <Text of={name} max={80} />
          </Choice>
        ))}
      {value === null ? null : (
        <p class="faint">
          {names.length === 1
            ? 'The only one that you may connect to.'
            : 'The database is part of every address.'}
        </p>
      )}
    </>
  );
}

/** The database that the address names and the tab is not in; null: the tab is where the address says. */
export function wantedDatabase(): string | null {
  const { database } = route.value;
  return me.value === null || database === null || database === me.value.database ? null : database;
}

/** Enters it. */
export function Entering({ database }: { readonly database: string }): JSX.Element {
  const [failure, setFailure] = useState<Failure | null>(null);
  useEffect(() => {
    setFailure(null);
    enterDatabase(database).catch((error: unknown) => setFailure(error as Failure));
  }, [database]);
  if (failure === null) return <p role="status">Entering the database …</p>;
  return (
    <div class="empty">
      <h1>
        No database <Text of={database} max={80} />, or no right to it
      </h1>
      <Wrong failure={failure} />
      <a class="button" href={to([])}>
        Go to <Text of={me.value?.database ?? ''} max={40} />
      </a>
    </div>
  );
}
