/**
 * Runs any statement as the role. Read-only until the switch is set. Several stand side by side in tabs (`sql-tabs.ts`), each with its result, which
 * lives as long as the page, and with a switch of its own. Beside it what can be read, what was saved, and what ran (`sql-tree.tsx`).
 */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SqlResponse } from '../api.ts';
import { Copy, focused, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { Share } from './share.tsx';
import { draft, open, rename, show, shown, shownTab, step, tabs } from './sql-tabs.ts';
import { TabBar } from './sql-tabs-bar.tsx';
import { mayRemember, note, recall, remember, save } from './sql-history.ts';
import { Failure, me, run } from './server.ts';
import { Editor, useNames } from './sql-editor.tsx';
import { SqlTree } from './sql-tree.tsx';
import { route, to } from './route.ts';
import { shellWord } from '../quote.ts';
import { Result } from './value.tsx';

type Outcome =
  | { readonly kind: 'none' | 'running' | 'cancelled' | 'dropped' }
  | { readonly kind: 'answer'; readonly answer: SqlResponse }
  | { readonly kind: 'failure'; readonly failure: Failure };

/** What became of the statement of a tab, and whether it may write. */
interface Run {
  readonly outcome: Outcome;
  readonly write: boolean;
}

const noRun: Run = { outcome: { kind: 'none' }, write: false };

/** Of so many tabs the results are kept: each may have 8 MiB. */
const answersMax = 4;

/** The newest last; results of older ones are dropped. */
function withRun(runs: ReadonlyMap<number, Run>, id: number, part: Partial<Run>): ReadonlyMap<number, Run> {
  const now = { ...(runs.get(id) ?? noRun), ...part };
  const all = [...[...runs].filter(([it]) => it !== id), [id, now] as const];
  const answers = all.filter(([, { outcome }]) => outcome.kind === 'answer').map(([it]) => it);
  const old = new Set(answers.slice(0, Math.max(0, answers.length - answersMax)));
  return new Map(all.map(([it, of]) => [it, old.has(it) ? { ...of, outcome: { kind: 'dropped' } } : of]));
}

/** The text of an address, in the tab that it was put into when this entry of the history was made. */
function takeText(sql: string): void {
  const { tab } = (history.state ?? {}) as { readonly tab?: number };
  if (tab !== undefined && tabs.value.some(({ id }) => id === tab)) return show(tab);
  open(sql);
  history.replaceState({ ...(history.state as object | null), tab: shown.value }, '');
}

/** In a few words, of the last of its results. */
function saidOf({ tables }: SqlResponse): string {
  const last = tables.at(-1);
  if (last === undefined) return '';
  const { columns, rows, command, more } = last;
  return columns.length === 0
    ? command
    : `${rows.length}${more ? '+' : ''} ${rows.length === 1 ? 'row' : 'rows'}`;
}

/** The runs of all tabs; those of tabs that are closed end. */
function useRuns() {
  const [runs, setRuns] = useState<ReadonlyMap<number, Run>>(new Map());
  const running = useRef(new Map<number, AbortController>());
  useEffect(
    () => () => {
      for (const it of running.current.values()) it.abort();
    },
    [],
  );
  useEffect(() => {
    const there = new Set(tabs.value.map(({ id }) => id));
    for (const [id, it] of running.current) if (!there.has(id)) it.abort();
    setRuns((before) => new Map([...before].filter(([id]) => there.has(id))));
  }, [tabs.value.length]);
  const set = (id: number, part: Partial<Run>): void => setRuns((before) => withRun(before, id, part));
  const start = (id: number, sql: string, mayWrite: boolean, failed: (failure: Failure) => void): void => {
    if (sql.trim() === '' || running.current.has(id)) return;
    const ending = new AbortController();
    running.current.set(id, ending);
    set(id, { outcome: { kind: 'running' } });
    remember(sql);
    run(sql, mayWrite, { signal: ending.signal })
      .then(
        (answer) => {
          set(id, { outcome: { kind: 'answer', answer } });
          note(sql, saidOf(answer));
        },
        (error: unknown) => {
          note(sql, error instanceof Failure ? 'error' : 'cancelled');
          if (!(error instanceof Failure)) return set(id, { outcome: { kind: 'cancelled' } });
          set(id, { outcome: { kind: 'failure', failure: error } });
          failed(error);
        },
      )
      .finally(() => running.current.delete(id));
  };
  return {
    of: (id: number) => runs.get(id) ?? noRun,
    set,
    start,
    cancel: (id: number) => running.current.get(id)?.abort(),
  };
}

export function SqlScreen({ first }: { readonly first: string }): JSX.Element {
  const runs = useRuns();
  const names = useNames();
  const area = useRef<HTMLTextAreaElement>(null);
  const id = shown.value;
  const { outcome, write } = runs.of(id);
  useEffect(() => {
    recall();
    if (first !== '') takeText(first);
    // Each entry of the history, also one with the same address.
  }, [route.value]);
  const start = (sql: string, mayWrite: boolean): void =>
    runs.start(id, sql, mayWrite, (failure) => {
      if (shown.value === id) point(area.current, failure.info.position);
    });
  const insert = (text: string): void => {
    const field = area.current;
    if (field === null) return;
    field.setRangeText(text, field.selectionStart, field.selectionEnd, 'end');
    draft.value = field.value;
    field.focus();
  };
  // The field of another tab is not there yet.
  const focus = (): void => {
    requestAnimationFrame(() => area.current?.focus());
  };
  const editor = {
    area,
    draft,
    names,
    write,
    busy: outcome.kind === 'running',
    start: () => start(draft.value, write),
    cancel: () => runs.cancel(id),
    plan: () => start(planOf(draft.value), false),
  };
  return (
    <>
      <header class="head">
        <h1 class="unseen">SQL</h1>
        <TabBar write={focus} />
        <span class="grow" />
        <ShareIt />
        <Copy text={me.value?.psql ?? ''} label="Copy for psql" kind="" />
      </header>
      <div
        class="sql"
        onKeyDown={(event) => {
          const by = { PageDown: 1, PageUp: -1 }[event.key] as 1 | -1 | undefined;
          if (!event.altKey || by === undefined) return;
          event.preventDefault();
          step(by);
          focus();
        }}
      >
        <SqlTree insert={insert} replace={(sql, name) => (open(sql, name), focus())} />
        <div id="statement" role="tabpanel" aria-labelledby={`tab-${id}`}>
          <Editor key={id} {...editor} toggle={() => runs.set(id, { write: !write })}>
            <SaveIt key={id} />
          </Editor>
          <Over ask={(sql) => start(sql, false)} />
          <Shown outcome={outcome} allowWriting={write ? null : () => runs.set(id, { write: true })} />
        </div>
      </div>
    </>
  );
}

/** The statement is part of the address, unless it may contain a secret. */
function ShareIt(): JSX.Element {
  const sql = draft.value;
  const isOpen = mayRemember(sql);
  return (
    <Share
      what={
        isOpen
          ? 'This statement; it runs when somebody runs it'
          : 'Without the statement: it may contain a secret, or is long'
      }
      place={() => to(['sql'], { sql: isOpen ? sql : '' }).slice(1)}
      command={isOpen && sql.trim() !== '' ? `${me.value?.psql ?? ''} -c ${shellWord(sql)}` : null}
    />
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
  // A statement that was saved before is saved again under its name.
  const first = /^Statement \d+$/.test(shownTab().name) ? '' : shownTab().name;
  const [said, setSaid] = useState('');
  if (name === null)
    return (
      <span class="row-of">
        <span role="status">{said}</span>
        <button
          type="button"
          class="quiet"
          disabled={draft.value.trim() === ''}
          onClick={() => setName(first)}
        >
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
        if (done) rename(name);
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
    case 'dropped':
      return <p class="faint">Results of {answersMax} statements are kept. Run it again to see this one.</p>;
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
