/**
 * Events of an application: documents for the events gateway, checked line by line while they are typed, and the calls that
 * send them. The page itself sends nothing: the gateway writes as a role of its own.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { prettyJson } from '../pretty.ts';
import { counted } from '../visible-text.ts';
import { shellWord } from '../quote.ts';
import { listColumns } from '../statements.ts';
import { useRows } from './load.ts';
import { Area, Badge, Code, Sql, Wrong } from './components.tsx';
import { me } from './server.ts';

const linesMax = 1_000;

export function Events(): JSX.Element {
  const loaded = useRows(listColumns);
  // Headgate's own are written by nobody else.
  const tables = loaded.value?.filter((row) => row['nspname'] !== 'headgate');
  const [name, setName] = useState('');
  const [text, setText] = useState('{"sensor": "a", "value": 1.5}\n{"sensor": "b", "value": 2.5}');
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const wrong = lines.flatMap((line, i) => (prettyJson(line)?.[0]?.text === '{' ? [] : [i + 1]));
  const chosen = name === '' ? (tables?.[0]?.['relname'] ?? 'table') : name;
  const base = me.value?.gateway ?? 'http://…:8000';
  const url = `${base}/v1/events?name=${encodeURIComponent(chosen)}`;
  return (
    <>
      <header class="head">
        <h1>Events</h1>
      </header>
      <p class="faint">
        Events of your own application need no signature: the events gateway writes documents into any table,
        one per line, all of a call or none.
      </p>
      {loaded.failure === null ? null : <Wrong failure={loaded.failure} />}
      <div class="form">
        <label>
          Table
          <select value={chosen} onChange={(event) => setName(event.currentTarget.value)}>
            {tables?.map((row) => (
              <option key={`${row['nspname']}.${row['relname']}`} value={row['relname'] ?? ''}>
                {row['relname']}
              </option>
            ))}
          </select>
        </label>
        <Area label="Documents, one per line" rows={8} value={text} change={setText} />
        <p role="status">
          {wrong.length === 0 ? (
            <Badge kind="good">{counted(lines.length, 'document')}</Badge>
          ) : (
            <>
              <Badge kind="bad">not a JSON object</Badge> in line {wrong.slice(0, 20).join(', ')}
            </>
          )}
          {lines.length > linesMax ? ' That is too much for a command line: put them into a file.' : ''}
        </p>
      </div>
      <h2>With curl</h2>
      <Code
        text={`curl -sS ${shellWord(url)} --data-raw ${shellWord(lines.slice(0, linesMax).join('\n'))}`}
      />
      <h2>With headgate/client</h2>
      <Code text={clientOf(base, chosen)} />
      <Sql text={listColumns} />
    </>
  );
}

const clientOf = (base: string, name: string): string => `import { createClient } from 'headgate/client';

const headgate = createClient({ url: ${JSON.stringify(base)} });
await headgate.insert(${JSON.stringify(name)}, [{ sensor: 'a', value: 1.5 }]);`;
