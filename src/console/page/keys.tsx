/** The keyboard: j and k move through the rows of a list, Enter opens one, / searches, ? shows the keys. */
import { signal } from '@preact/signals';
import { jumping } from './jump.tsx';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const shown = signal(false);

const keys: readonly (readonly [string, string])[] = [
  ['j  k', 'next, previous'],
  ['Enter', 'open'],
  ['/', 'search'],
  ['r', 'retry this request'],
  ['c', 'copy as curl'],
  ['Ctrl K', 'jump to an endpoint or a page'],
  ['Ctrl Enter', 'run the SQL'],
  ['Esc', 'leave a field, close this'],
  ['?', 'show these keys'],
];

export function watchKeys(): void {
  addEventListener('keydown', (event) => {
    const { target } = event;
    const typing =
      target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;
    if (event.key === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      jumping.value = !jumping.value;
      return;
    }
    if (event.key === 'Escape' && typing && !jumping.value) return target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key)) event.preventDefault();
  });
}

function press(key: string): boolean {
  switch (key) {
    case 'j':
      return move(1);
    case 'k':
      return move(-1);
    case '/': {
      const field = document.querySelector<HTMLElement>('[data-search]');
      field?.focus();
      return field !== null;
    }
    case '?':
      shown.value = !shown.value;
      return true;
    case 'r':
    case 'c': {
      const button = document.querySelector<HTMLElement>(`[data-key="${key}"]`);
      button?.click();
      return button !== null;
    }
    default:
      return false;
  }
}

function move(by: number): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  if (rows.length === 0) return false;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row =
    rows[at === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  row?.focus();
  row?.scrollIntoView({ block: 'nearest' });
  return true;
}

export function Help(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = shown.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} onClose={() => (shown.value = false)} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => (shown.value = false)}>
        Close
      </button>
    </dialog>
  );
}
