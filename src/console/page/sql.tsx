/** Runs any statement as the role. Read-only until the switch is set; statements that ran in this tab can be recalled. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SqlAnswer } from '../api.ts';
import { withoutSecrets } from '../statements.ts';
import { Code, Text, Wrong } from './parts.tsx';
import { Failure, me, run } from './server.ts';
import { Editor } from './sql-editor.tsx';
import { Result } from './value.tsx';

const historyMax = 50;
/** Only for this tab, and lost with it. */
const history = signal<readonly string[]>([]);
const draft = signal('');

type Outcome =
  | { readonly kind: 'none' | 'running' | 'cancelled' }
  | { readonly kind: 'answer'; readonly answer: SqlAnswer }
  | { readonly kind: 'failure'; readonly failure: Failure };

export function SqlScreen({ first }: { readonly first: string }): JSX.Element {
  const [write, setWrite] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>({ kind: 'none' });
  const running = useRef<AbortController | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (first !== '') draft.value = first;
    return () => running.current?.abort();
  }, [first]);
  const start = (): void => {
    const sql = draft.value;
    if (sql.trim() === '' || running.current !== null) return;
    const ending = new AbortController();
    running.current = ending;
    setOutcome({ kind: 'running' });
    history.value = [sql, ...history.value.filter((it) => it !== sql)].slice(0, historyMax);
    run(sql, write, { signal: ending.signal })
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
  const editor = {
    area,
    draft,
    write,
    busy: outcome.kind === 'running',
    start,
    cancel: () => running.current?.abort(),
  };
  return (
    <>
      <header class="head">
        <h1>SQL</h1>
        <span class="faint mono">
          <Text of={me.value?.psql ?? ''} max={200} />
        </span>
      </header>
      <Editor {...editor} toggle={() => setWrite(!write)} />
      <Shown outcome={outcome} />
      <Before />
    </>
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

function Shown({ outcome }: { readonly outcome: Outcome }): JSX.Element | null {
  switch (outcome.kind) {
    case 'none':
      return null;
    case 'running':
      return <p role="status">Running …</p>;
    case 'cancelled':
      return <p role="status">Cancelled.</p>;
    case 'failure':
      return <Wrong failure={outcome.failure} />;
    case 'answer':
      return <Answer answer={outcome.answer} />;
  }
}

function Answer({ answer }: { readonly answer: SqlAnswer }): JSX.Element {
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
        <Result key={i} table={table} />
      ))}
      <p class="faint">{answer.ms} ms</p>
    </div>
  );
}

function Before(): JSX.Element | null {
  if (history.value.length === 0) return null;
  return (
    <section>
      <h2>History</h2>
      <p class="faint">In this tab, until it is closed.</p>
      <ul class="list">
        {history.value.map((sql) => (
          <li key={sql} class="row-of">
            <button type="button" class="small quiet" onClick={() => (draft.value = sql)}>
              Use
            </button>
            <div class="grow">
              <Code text={withoutSecrets(sql)} copied={sql} />
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
