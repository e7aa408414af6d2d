/**
 * The statements that stand side by side on the SQL page, and the one that is shown. They belong to one tab of the browser, which keeps them over
 * reloads in sessionStorage: `tabsMax` of them, without those that `mayRemember` leaves out.
 */
import { batch, effect, signal } from '@preact/signals';
import { mayRemember } from './sql-history.ts';

export const tabsMax = 12;
export const nameMax = 80;

export interface SqlTab {
  readonly id: number;
  readonly name: string;
  readonly text: string;
}

const key = 'headgate-statements';

function newTab(others: readonly SqlTab[], text = '', name = ''): SqlTab {
  const id = Math.max(0, ...others.map((it) => it.id)) + 1;
  const names = new Set(others.map((it) => it.name));
  let n = 1;
  while (names.has(`Statement ${n}`)) n++;
  return { id, name: name === '' ? `Statement ${n}` : name, text };
}

const isTab = (it: unknown): it is SqlTab =>
  typeof it === 'object' &&
  it !== null &&
  Number.isSafeInteger((it as SqlTab).id) &&
  typeof (it as SqlTab).name === 'string' &&
  typeof (it as SqlTab).text === 'string';

function kept(): { readonly tabs: readonly SqlTab[]; readonly shown: number } {
  try {
    const { tabs: all, shown: id } = JSON.parse(sessionStorage.getItem(key) ?? '') as Record<string, unknown>;
    const known = Array.isArray(all) ? (all as unknown[]).filter(isTab).slice(0, tabsMax) : [];
    const [first] = known;
    if (first !== undefined)
      return { tabs: known, shown: known.some((it) => it.id === id) ? (id as number) : first.id };
  } catch {
    // Nothing is kept.
  }
  const only = newTab([]);
  return { tabs: [only], shown: only.id };
}

const start = kept();
export const tabs = signal(start.tabs);
/** Of the one that is shown. */
export const shown = signal(start.shown);
/** Its text. */
export const draft = signal(start.tabs.find(({ id }) => id === start.shown)?.text ?? '');
/** The one that was closed last. */
export const closed = signal<SqlTab | null>(null);

effect(() => {
  const text = draft.value;
  if (shownTab().text !== text) change({ text });
});

effect(() => {
  const all = tabs.value.map((it) => (mayRemember(it.text) ? it : { ...it, text: '' }));
  try {
    sessionStorage.setItem(key, JSON.stringify({ tabs: all, shown: shown.value }));
  } catch {
    // The browser's storage is full: the page remembers them until it is left.
  }
});

export function shownTab(): SqlTab {
  const all = tabs.peek();
  return all.find(({ id }) => id === shown.peek()) ?? newTab(all);
}

function change(part: Partial<SqlTab>): void {
  const id = shown.peek();
  tabs.value = tabs.peek().map((it) => (it.id === id ? { ...it, ...part } : it));
}

export const rename = (name: string): void => {
  if (name.trim() !== '') change({ name: name.trim().slice(0, nameMax) });
};

export function show(id: number): void {
  const tab = tabs.peek().find((it) => it.id === id);
  if (tab === undefined) return;
  batch(() => {
    shown.value = id;
    draft.value = tab.text;
  });
}

/** Behind the others; in place of the one that is shown, if there are too many, which can be brought back. */
export function add(text = '', name = ''): void {
  const all = tabs.peek();
  const tab = newTab(all, text, name);
  const now = shownTab();
  const isFull = all.length >= tabsMax;
  batch(() => {
    if (isFull) closed.value = now;
    tabs.value = isFull ? all.map((it) => (it.id === now.id ? tab : it)) : [...all, tab];
    show(tab.id);
  });
}

/** Shows this text: where it is already, in the tab that is empty, or in a new one. */
export function open(text: string, name = ''): void {
  const same = tabs.peek().find((it) => it.text === text);
  if (same !== undefined) return show(same.id);
  if (shownTab().text !== '') return add(text, name);
  batch(() => {
    if (name !== '') rename(name);
    draft.value = text;
  });
}

export function close(id: number): void {
  const all = tabs.peek();
  const at = all.findIndex((it) => it.id === id);
  const tab = all[at];
  if (tab === undefined) return;
  const others = all.filter((it) => it !== tab);
  const left = others.length === 0 ? [newTab(all)] : others;
  batch(() => {
    if (tab.text !== '') closed.value = tab;
    tabs.value = left;
    if (shown.peek() === id) show((left[at] ?? left.at(-1))?.id ?? 0);
  });
}

export function reopen(): void {
  const tab = closed.peek();
  if (tab === null || tabs.peek().length >= tabsMax) return;
  batch(() => {
    closed.value = null;
    add(tab.text, tab.name);
  });
}

/** To the next one, or the one before; round about. */
export function step(by: 1 | -1): void {
  const all = tabs.peek();
  const at = all.findIndex(({ id }) => id === shown.peek());
  const next = all[(at + by + all.length) % all.length];
  if (next !== undefined) show(next.id);
}
