/** The keyboard: j and k move through the rows of a list, Enter opens one, / searches, ? shows the keys. */
import { signal } from '@preact/signals';
import { jumping } from './command-palette.tsx';
import type { JSX } from 'preact';
import { useDialog } from './dialog.ts';
import { go, route } from './route.ts';

const shown = signal(false);
export const showKeys = (): boolean => (shown.value = true);

const keys: readonly (readonly [string, string])[] = [
  ['j  k', 'next, previous'],
  ['Enter', 'open beside the list'],
  ['o', 'open its page'],
  ['x', 'select; Shift x: from there to here'],
  ['/', 'search'],
  ['f', 'add a filter'],
  ['.', 'show what is new'],
  ['e', 'explain'],
  ['c', 'copy as curl'],
  ['r', 'retry (never what failed its check)'],
  ['g then o, r, e, s', 'Overview, Requests, Endpoints, SQL'],
  ['Ctrl K', 'jump to an endpoint or a page'],
  ['Ctrl Enter', 'run the SQL'],
  ['Alt PgUp, PgDn', 'another statement'],
  ['Esc', 'leave a field, close this'],
  ['?', 'show these keys'],
];

export function watchKeys(): void {
  addEventListener('keydown', (event) => {
    const { target } = event;
    const typing =
      target instanceof HTMLElement &&
      target.closest('input:not([type=checkbox]), textarea, select, [contenteditable]') !== null;
    if (event.key === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      jumping.value = !jumping.value;
      return;
    }
    if (event.key === 'Escape' && typing && !jumping.value) return target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key, event.shiftKey)) event.preventDefault();
  });
}

/** Pages by the key after `g`. */
const places: Readonly<Record<string, string>> = { o: '', r: 'requests', e: 'endpoints', s: 'sql' };
let goes = false;

function press(key: string, shift: boolean): boolean {
  const [isPlace, place] = [goes, places[key]];
  goes = key === 'g';
  if (isPlace && place !== undefined) {
    go(place === '' ? [] : [place]);
    return true;
  }
  switch (key) {
    case 'j':
      return move(1) || click(key);
    case 'k':
      return move(-1) || click(key);
    case 'x':
    case 'X': {
      const box = document.activeElement?.closest('tr')?.querySelector<HTMLElement>('input[type="checkbox"]');
      box?.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, shiftKey: shift }));
      return box !== null && box !== undefined;
    }
    case '/': {
      const field = document.querySelector<HTMLElement>('[data-search]');
      field?.focus();
      return field !== null;
    }
    case '?':
      shown.value = !shown.value;
      return true;
    case '.':
    case 'c':
    case 'e':
    case 'f':
    case 'o':
    case 'r':
    case 'Escape':
      return click(key);
    default:
      return false;
  }
}

/** What the page has put on this key. */
function click(key: string): boolean {
  const button = document.querySelector<HTMLElement>(`[data-key="${key}"]`);
  button?.click();
  return button !== null || ((key === 'o' || key === 'e') && openPage());
}

/** Of the request whose line has the focus: no panel has to be open for it. */
function openPage(): boolean {
  const id = (document.activeElement as HTMLElement | null)?.dataset?.['row'] ?? '';
  const { parts, query } = route.value;
  if (id === '' || parts[0] !== 'requests') return false;
  go(['requests', id], Object.fromEntries(query));
  return true;
}

function move(by: number): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  if (rows.length === 0) return false;
  const focused = rows.findIndex((row) => row.contains(document.activeElement));
  // A request that was opened on another page has no focus here.
  const at = focused === -1 ? rows.findIndex((row) => row.closest('tr[aria-current]') !== null) : focused;
  const row =
    rows[at === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  row?.focus();
  row?.scrollIntoView({ block: 'nearest' });
  return true;
}

export function Help(): JSX.Element {
  return (
    <dialog {...useDialog(shown)} aria-label="Keys">
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
