/** Runs any statement as the role. Read-only until the switch is set. Beside it what can be read, what was saved, and what ran (`sql-tree.tsx`). */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SqlResponse } from '../api.ts';
import { Copy, focused, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { draft, recall, remember, save } from './sql-history.ts';
import { Failure, me, run } from './server.ts';
import { Editor } from './sql-editor.tsx';
import { SqlTree } from './sql-tree.tsx';
import { Result } from './value.tsx';

type Outcome =
  | { readonly kind: 'none' | 'running' | 'cancelled' }
  | { readonly kind: 'answer'; readonly answer: SqlResponse }
  | { readonly kind: 'failure'; readonly failure: Failure };

export function SqlScreen({ first }: { readonly first: string }): JSX.Element {
  const [write, setWrite] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>({ kind: 'none' });
  const running = useRef<AbortController | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    recall();
    if (first !== '') draft.value = first;
    return () => running.current?.abort();
  }, [first]);
  const start = (sql: string, mayWrite: boolean): void => {
    if (sql.trim() === '' || running.current !== null) return;
    const ending = new AbortController();
    running.current = ending;
    setOutcome({ kind: 'running' });
    remember(sql);
    run(sql, mayWrite, { signal: ending.signal })
      .then(
        (answer) => setOutcome({ kind: 'answer', answer }),
        (error: unknown) => {
          if (!(error instanceof Failure)) return setOutcome({ kind: 'cancelled' });
          setOutcome({ kind: 'failure', failure: error });
          point(area.current, error.info.position);
        },
      )
      .finally(() => (running.current = null));
  };
  const insert = (text: string): void => {
    const field = area.current;
    if (field === null) return;
    field.setRangeText(text, field.selectionStart, field.selectionEnd, 'end');
    draft.value = field.value;
    field.focus();
  };
  const editor = {
    area,
    draft,
    write,
    busy: outcome.kind === 'running',
    start: () => start(draft.value, write),
    cancel: () => running.current?.abort(),
    plan: () => start(planOf(draft.value), false),
  };
  return (
    <>
      <header class="head">
        <h1>SQL</h1>
        <span class="faint mono">
          <Text of={me.value?.psql ?? ''} max={200} />
        </span>
        <Copy text={me.value?.psql ?? ''} label="Copy for psql" kind="" />
      </header>
      <div class="sql">
        <SqlTree insert={insert} replace={(sql) => ((draft.value = sql), area.current?.focus())} />
        <div>
          <Editor {...editor} toggle={() => setWrite(!write)}>
            <SaveIt />
          </Editor>
          <Over ask={(sql) => start(sql, false)} />
          <Shown outcome={outcome} allowWriting={write ? null : () => setWrite(true)} />
        </div>
      </div>
    </>
  );
}

/** Of the one statement that is there, or EXPLAIN itself. */
const planOf = (sql: string): string => (/^\s*EXPLAIN\b/i.test(sql) ? sql : `EXPLAIN ${sql}`);

/** What another check would have said, beside a statement that changes one. */
function Over({ ask }: { readonly ask: (sql: string) => void }): JSX.Element | null {
  const statement = draft.value.trim().replace(/\s*;$/, '');
  if (!/^ALTER\s+TABLE\b[^;]*\bVALIDATE\b[^;]*$/i.test(statement)) return null;
  return (
    <p>
      <button type="button" onClick={() => ask(`EXPLAIN ${statement} OVER '7 days'`)}>
        Try this check on the requests of 7 days
      </button>{' '}
      <span class="faint">changes nothing</span>
    </p>
  );
}

/** Selects the word at the position of the error. */
function point(area: HTMLTextAreaElement | null, position: number | undefined): void {
  if (area === null || position === undefined) return;
  const before = Array.from(area.value)
    .slice(0, position - 1)
    .join('').length;
  const word = /^\S+/.exec(area.value.slice(before))?.[0] ?? ' ';
  area.focus();
  area.setSelectionRange(before, before + word.length);
}

/** Under a name, in this browser. */
function SaveIt(): JSX.Element {
  const [name, setName] = useState<string | null>(null);
  const [said, setSaid] = useState('');
  if (name === null)
    return (
      <span class="row-of">
        <span role="status">{said}</span>
        <button type="button" class="quiet" disabled={draft.value.trim() === ''} onClick={() => setName('')}>
          Save …
        </button>
      </span>
    );
  return (
    <form
      class="row-of"
      onSubmit={(event) => {
        event.preventDefault();
        const done = save('saved', name.trim(), draft.value);
        setSaid(done ? 'Saved in this browser.' : 'It contains a secret, or is too long, and was not saved.');
        setName(null);
      }}
    >
      <input
        aria-label="Name of the statement"
        placeholder="Its name"
        maxLength={80}
        value={name}
        ref={focused}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button type="submit" class="small" disabled={name.trim() === ''}>
        Save
      </button>
      <button type="button" class="small quiet" onClick={() => setName(null)}>
        Cancel
      </button>
    </form>
  );
}

interface ShownProps {
  readonly outcome: Outcome;
  /** null: the page may write already. */
  readonly allowWriting: (() => void) | null;
}

function Shown({ outcome, allowWriting }: ShownProps): JSX.Element | null {
  switch (outcome.kind) {
    case 'none':
      return null;
    case 'running':
      return <p role="status">Running …</p>;
    case 'cancelled':
      return <p role="status">Cancelled.</p>;
    case 'failure':
      return outcome.failure.info.sqlstate === '25006' && allowWriting !== null ? (
        <div class="refused">
          <div class="sentence" role="alert">
            <p class="title">This changes something, and the page is read only.</p>
            <p class="faint">
              <Text of={outcome.failure.info.error} /> (25006)
            </p>
            <p>
              <button type="button" onClick={allowWriting}>
                Switch to “may write”
              </button>
            </p>
          </div>
        </div>
      ) : (
        <Wrong failure={outcome.failure} />
      );
    case 'answer':
      return <Answer answer={outcome.answer} />;
  }
}

function Answer({ answer }: { readonly answer: SqlResponse }): JSX.Element {
  return (
    <div role="status">
      {answer.notices.map((notice, i) => (
        <div key={i} class="notice">
          <b>{notice.severity}:</b> <Text of={notice.message} />
          {notice.hint === null ? null : (
            <div class="hint">
              HINT: <Text of={notice.hint} />
            </div>
          )}
        </div>
      ))}
      {answer.tables.map((table, i) => (
        <Result key={i} table={table} ms={i === answer.tables.length - 1 ? answer.ms : undefined} />
      ))}
      {answer.tables.length === 0 ? <p class="faint">{answer.ms} ms</p> : null}
    </div>
  );
}
