/**
 * The SQL editor: a text field in front of the same text in colours, with completions for the word before the caret below it. It completes tables and columns
 * that the role may read (`pg_attribute`), secrets, and senders.
 */
import { useSignal } from '@preact/signals';
import type { Signal } from '@preact/signals';
import type { ComponentChildren, JSX, RefObject } from 'preact';
import type { SenderInfo } from '../api.ts';
import { completionOf } from '../completion.ts';
import { formatSql } from '../sql-format.ts';
import type { Names } from '../completion.ts';
import { useEffect, useRef } from 'preact/hooks';
import { listColumns } from '../relation-statements.ts';
import { listSecrets } from '../statements.ts';
import { unlessAway } from './components.tsx';
import { useLoaded, useRows } from './load.ts';
import { Text } from './text.tsx';
import { call } from './server.ts';
import { EditorText } from './sql-text.tsx';

interface EditorProps {
  readonly area: RefObject<HTMLTextAreaElement | null>;
  readonly draft: Signal<string>;
  /** What words are completed to. */
  readonly names: Names;
  readonly write: boolean;
  readonly busy: boolean;
  readonly start: () => void;
  readonly cancel: () => void;
  /** Asks for the plan of the statement. */
  readonly plan: () => void;
  readonly toggle: () => void;
  /** Beside the buttons. */
  readonly children: ComponentChildren;
}

/** What the word before the caret may become. */
function useOffered(area: EditorProps['area'], names: Names) {
  const offered = useSignal<Offered | null>(null);
  const look = (): void => {
    const { value = '', selectionStart = 0 } = area.current ?? {};
    const found = completionOf(value, selectionStart, names);
    offered.value = found === null ? null : { ...found, chosen: 0 };
  };
  // The names may arrive after the first letters were typed; what runs already is complete.
  const isTyping = useRef(false);
  const known = names.columns.length + names.secrets.length + names.senders.length;
  useEffect(() => {
    if (isTyping.current) look();
  }, [known]);
  return { offered, look, isTyping };
}

export function Editor({ area, draft, names, ...run }: EditorProps): JSX.Element {
  const { write, start } = run;
  const { offered, look, isTyping } = useOffered(area, names);
  const take = (option: string, from: number): void => {
    const field = area.current;
    if (field === null) return;
    field.setRangeText(option, from, field.selectionStart, 'end');
    draft.value = field.value;
    offered.value = null;
    field.focus();
  };
  const keyed = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      isTyping.current = false;
      offered.value = null;
      return start();
    }
    const now = offered.value;
    if (now === null) return;
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const option = now.options[now.chosen];
    if (move !== undefined) {
      const chosen = (now.chosen + move + now.options.length) % now.options.length;
      offered.value = { ...now, chosen };
    } else if (event.key === 'Tab' && !event.shiftKey && option !== undefined) take(option, now.from);
    else if (event.key === 'Escape') {
      offered.value = null;
      event.stopPropagation();
    } else return;
    event.preventDefault();
  };
  return (
    <div class={write ? 'editor writes' : 'editor'}>
      <div class="sql-field">
        <EditorText of={draft.value} />
        <textarea
          ref={area}
          data-search
          aria-label="SQL"
          aria-autocomplete="list"
          aria-controls="offered"
          aria-activedescendant={offered.value === null ? undefined : `offered-${offered.value.chosen}`}
          rows={1}
          spellcheck={false}
          placeholder="SELECT …   EXPLAIN VALIDATE …   SHOW ENDPOINTS"
          value={draft.value}
          onInput={(event) => {
            draft.value = event.currentTarget.value;
            isTyping.current = true;
            look();
          }}
          onBlur={() => ((isTyping.current = false), (offered.value = null))}
          onKeyDown={keyed}
        />
      </div>
      <Options offered={offered} take={take} />
      <Buttons {...run} area={area} draft={draft} empty={draft.value.trim() === ''} />
    </div>
  );
}

/** As if it were typed, so that it can be undone. */
function setInLines(field: HTMLTextAreaElement | null, draft: Signal<string>): void {
  field?.focus();
  field?.select();
  const text = formatSql(draft.value);
  if (!document.execCommand('insertText', false, text)) draft.value = text;
  // Nothing is completed after it.
  field?.blur();
  field?.focus();
}

type ButtonsProps = Omit<EditorProps, 'names'> & { readonly empty: boolean };

function Buttons({ area, draft, write, busy, start, cancel, plan, toggle, empty, children }: ButtonsProps) {
  return (
    <div class="row-of wrap">
      <button type="button" class={write ? 'danger' : 'primary'} {...unlessAway(busy)} onClick={start}>
        {write ? 'Run and write' : 'Run'} <kbd aria-hidden="true">Ctrl ↵</kbd>
      </button>
      <button type="button" {...unlessAway(busy || empty, 'Its plan; nothing runs')} onClick={plan}>
        Explain
      </button>
      {busy ? (
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      ) : null}
      <span class="segments" role="radiogroup" aria-label="What a statement may do">
        {['Read only', 'May write'].map((words, i) => (
          <label key={words}>
            <input type="radio" name="may" checked={write === (i === 1)} onChange={toggle} /> {words}
          </label>
        ))}
      </span>
      <span class="faint grow">
        {write ? 'one or more statements; each is committed' : 'one statement, 10 s, 1,000 rows'}
      </span>
      {children}
      <button
        type="button"
        class="quiet"
        disabled={empty}
        title="A line for each clause"
        onClick={() => setInLines(area.current, draft)}
      >
        Format
      </button>
    </div>
  );
}

interface OptionsProps {
  readonly offered: Signal<Offered | null>;
  readonly take: (option: string, from: number) => void;
}

function Options({ offered, take }: OptionsProps): JSX.Element {
  const now = offered.value;
  return (
    <ul id="offered" class="offered" role="listbox" aria-label="Completions">
      {now?.options.map((option, i) => (
        <li
          key={option}
          id={`offered-${i}`}
          role="option"
          aria-selected={i === now.chosen}
          // On mousedown, before the field loses the focus.
          onMouseDown={(event) => {
            event.preventDefault();
            take(option, now.from);
          }}
        >
          <Text of={option} max={80} />
        </li>
      ))}
    </ul>
  );
}

interface Offered {
  readonly from: number;
  readonly options: readonly string[];
  readonly chosen: number;
}

export function useNames(): Names {
  const columns = useRows(listColumns).value ?? [];
  const secrets = useRows(listSecrets).value ?? [];
  const senders =
    useLoaded('senders', (options) => call<readonly SenderInfo[]>('senders', options)).value ?? [];
  return {
    columns: columns.flatMap(({ nspname, relname, names }) => [
      [nspname ?? '', relname ?? '', ''] as const,
      // A name may contain any character but a zero byte.
      ...(JSON.parse(names ?? '[]') as string[]).map((name) => [nspname ?? '', relname ?? '', name] as const),
    ]),
    secrets: secrets.map((row) => row['name'] ?? ''),
    senders: senders.map(({ id }) => id),
  };
}
