/**
 * Events of an application: documents for the events gateway, judged line by line while they are typed, and the calls that
 * send them. The page itself sends nothing: the gateway writes as a role of its own.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { eventsCommand, eventsProgram, judgeEvents, sampleOf } from '../event-documents.ts';
import type { EventColumn, JudgedEvents } from '../event-documents.ts';
import { counted, optionText } from '../visible-text.ts';
import { identifier, qualified } from '../quote.ts';
import { listEventTables } from '../relation-statements.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { Area, Badge, Code, Sql, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { me } from './server.ts';

const linesMax = 1_000;
const problemsMax = 5;

export function Events(): JSX.Element {
  const loaded = useRows(listEventTables);
  // Headgate's own are written by nobody else.
  const tables = (loaded.value ?? []).filter((row) => row['nspname'] !== 'headgate');
  const { gateway: base = '', database = '' } = me.value ?? {};
  const [name, setName] = useState('');
  const [typed, setTyped] = useState<string | null>(null);
  const chosen = tables.find((row) => nameOf(row) === name) ?? tables[0];
  const columns = JSON.parse(chosen?.['columns'] ?? '[]') as readonly EventColumn[];
  const text = typed ?? sampleOf(columns);
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const to = {
    database,
    schema: chosen?.['nspname'] ?? '',
    table: chosen?.['relname'] ?? '',
  };
  return (
    <>
      <header class="head">
        <h1>Events</h1>
      </header>
      <p class="faint">
        Events of your own application need no signature: the events gateway writes documents into any table,
        one per line, all of a call or none. Their keys are columns, also in a webhook table.
      </p>
      {loaded.failure === null ? null : <Wrong failure={loaded.failure} />}
      {chosen === undefined || database === '' ? (
        loaded.value === null || chosen !== undefined ? null : (
          <p class="empty">There is no table in this database that you can look at.</p>
        )
      ) : (
        <>
          <div class="form">
            <label>
              Table
              <select value={nameOf(chosen)} onChange={(event) => setName(event.currentTarget.value)}>
                {tables.map((row) => (
                  <option key={nameOf(row)} value={nameOf(row)}>
                    {optionText(row['nspname'] === 'public' ? identifier(row['relname'] ?? '') : nameOf(row))}
                  </option>
                ))}
              </select>
            </label>
            <Area label="Documents, one per line" rows={8} value={text} change={setTyped} />
            <Judged of={judgeEvents(text, columns)} />
            {lines.length > linesMax ? (
              <p>That is too much for a command line: put them into a file.</p>
            ) : null}
          </div>
          <h2>With curl</h2>
          <Code text={eventsCommand(base, to, lines.slice(0, linesMax).join('\n'))} />
          <h2>With headgate/client</h2>
          <Code text={eventsProgram(base, to, sampleOf(columns).split('\n')[0] ?? '')} />
        </>
      )}
      <Sql text={listEventTables} />
    </>
  );
}

const nameOf = ({ nspname, relname }: ResultRow): string => qualified(nspname ?? '', relname ?? '');

/** What the gateway would refuse; a value that does not fit its column only PostgreSQL finds. */
function Judged({ of: { documents, problems } }: { readonly of: JudgedEvents }): JSX.Element {
  if (documents === 0)
    return (
      <p role="status">
        <Badge kind="plain">no document</Badge>
      </p>
    );
  if (problems.length === 0)
    return (
      <p role="status">
        <Badge kind="good">{counted(documents, 'document')}</Badge>{' '}
        <span class="faint">Types are checked by PostgreSQL when they are stored.</span>
      </p>
    );
  return (
    <div role="status">
      {problems.slice(0, problemsMax).map(({ line, says }) => (
        <p key={line}>
          <Badge kind="bad">refused</Badge> line {line}: <Text of={says} max={600} />
        </p>
      ))}
      {problems.length > problemsMax ? (
        <p class="faint">and {counted(problems.length - problemsMax, 'other line')}</p>
      ) : null}
    </div>
  );
}
