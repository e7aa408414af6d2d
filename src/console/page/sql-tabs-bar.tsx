/** The statements of the SQL page by their names: arrows go to another one, Delete closes it, F2 and a double click rename it. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { Name } from './address.tsx';
import { focused } from './components.tsx';
import { saved } from './sql-history.ts';
import { add, close, closed, nameMax, rename, reopen, show, shown, step, tabs, tabsMax } from './sql-tabs.ts';
import type { SqlTab } from './sql-tabs.ts';

/** A name with which a statement was saved, and another text. */
const isChanged = ({ name, text }: SqlTab): boolean =>
  saved.value.some((it) => it.name === name && it.text !== text);

/** `write`: goes on to the editor. */
export function TabBar({ write }: { readonly write: () => void }): JSX.Element {
  const [renaming, setRenaming] = useState(false);
  const list = useRef<HTMLDivElement>(null);
  const isFull = tabs.value.length >= tabsMax;
  const focus = (): void => {
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
  };
  const keyed = (event: KeyboardEvent): void => {
    const all = tabs.value;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key] as 1 | -1 | undefined;
    if (by !== undefined) step(by);
    else if (event.key === 'Home') show(all[0]?.id ?? 0);
    else if (event.key === 'End') show(all.at(-1)?.id ?? 0);
    else if (event.key === 'Delete') close(shown.value);
    else if (event.key === 'F2') return setRenaming(true);
    else return;
    event.preventDefault();
    focus();
  };
  return (
    <>
      <div class="tabs statements" role="tablist" aria-label="Statements" ref={list} onKeyDown={keyed}>
        {tabs.value.map((tab) => (
          <Tab key={tab.id} tab={tab} rename={() => setRenaming(true)} />
        ))}
      </div>
      {renaming ? (
        <Renaming
          key={shown.value}
          end={() => {
            setRenaming(false);
            focus();
          }}
        />
      ) : null}
      <button
        type="button"
        class="small quiet"
        aria-label="New statement"
        title={isFull ? `${tabsMax} at most: close one` : 'New statement'}
        disabled={isFull}
        onClick={() => (add(), write())}
      >
        +
      </button>
      {closed.value === null || isFull ? null : (
        <button type="button" class="small quiet" onClick={() => (reopen(), write())}>
          Reopen <Name of={closed.value.name} max={16} />
        </button>
      )}
    </>
  );
}

function Tab({ tab, rename: begin }: { readonly tab: SqlTab; readonly rename: () => void }): JSX.Element {
  const { id, name } = tab;
  const isShown = id === shown.value;
  return (
    <button
      type="button"
      role="tab"
      id={`tab-${id}`}
      aria-selected={isShown}
      aria-controls="statement"
      aria-keyshortcuts="Delete F2"
      tabIndex={isShown ? 0 : -1}
      onClick={() => show(id)}
      onDblClick={begin}
      onAuxClick={() => close(id)}
    >
      <Name of={name} max={24} />
      {isChanged(tab) ? (
        <>
          {' '}
          <span aria-hidden="true">•</span>
          <span class="unseen">changed since it was saved</span>
        </>
      ) : null}
      {/* For the mouse and for fingers; the keyboard has Delete. */}
      {isShown ? (
        <span
          class="close"
          aria-hidden="true"
          title="Close"
          onClick={(event) => {
            event.stopPropagation();
            close(id);
          }}
        >
          ×
        </span>
      ) : null}
    </button>
  );
}

function Renaming({ end }: { readonly end: () => void }): JSX.Element {
  const [name, setName] = useState(tabs.value.find(({ id }) => id === shown.value)?.name ?? '');
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        rename(name);
        end();
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.stopPropagation();
        end();
      }}
    >
      <input
        aria-label="Name of this tab"
        maxLength={nameMax}
        value={name}
        ref={focused}
        onInput={(event) => setName(event.currentTarget.value)}
        onBlur={end}
      />
    </form>
  );
}
