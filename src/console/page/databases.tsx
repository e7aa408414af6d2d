/** The database of this tab, and the others that the role may connect to: choosing one enters it with a session of its own. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { listDatabases } from '../statements.ts';
import { useRows } from './load.ts';
import { Text, Wrong } from './parts.tsx';
import { go } from './route.ts';
import { enterDatabase } from './server.ts';
import type { Failure } from './server.ts';

export function Databases({ current }: { readonly current: string }): JSX.Element {
  const names = (useRows(listDatabases).value ?? []).map((row) => row['datname'] ?? '');
  const [failure, setFailure] = useState<Failure | null>(null);
  if (names.length < 2) return <Text of={current} max={40} />;
  const choose = (database: string): void => {
    setFailure(null);
    enterDatabase(database).then(
      () => go([]),
      (error: unknown) => setFailure(error as Failure),
    );
  };
  return (
    <label>
      <span class="unseen">Database</span>
      <select class="small" value={current} onChange={(event) => choose(event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name} value={name}>
            {name.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd')}
          </option>
        ))}
      </select>
      {failure === null ? null : <Wrong failure={failure} />}
    </label>
  );
}
