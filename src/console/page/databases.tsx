/** The database of this tab, and the others that the role may connect to: choosing one goes to its overview, with a session of its own. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { optionText } from '../visible-text.ts';
import { listDatabases } from '../statements.ts';
import { useRows } from './load.ts';
import { Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { route, to } from './route.ts';
import { enterDatabase, me } from './server.ts';
import type { Failure } from './server.ts';

export function Databases({ current }: { readonly current: string }): JSX.Element {
  const names = (useRows(listDatabases).value ?? []).map((row) => row['datname'] ?? '');
  if (names.length < 2) return <Text of={current} max={40} />;
  return (
    <label>
      <span class="unseen">Database</span>
      <select
        class="small"
        value={current}
        onChange={(event) => (location.hash = to([], {}, event.currentTarget.value))}
      >
        {names.map((name) => (
          <option key={name} value={name}>
            {optionText(name)}
          </option>
        ))}
      </select>
    </label>
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
