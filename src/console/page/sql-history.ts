/**
 * What the browser remembers for one role and database: saved statements, those that ran, and saved views of the list of requests, in
 * localStorage. A text that may contain a secret is not remembered, and no result is.
 */
import { signal } from '@preact/signals';
import { mayHoldSecret } from '../statements.ts';
import { me } from './server.ts';

const historyMax = 200;
const savedMax = 200;
const charsMax = 20_000;

/** A statement, or the filters of a list as they stand in its address. */
export interface Saved {
  readonly name: string;
  readonly text: string;
}

/** A statement that ran, and what became of it: `11 rows`, `error`; '': it is not known. */
export interface Ran {
  readonly text: string;
  readonly said: string;
}

export const history = signal<readonly Ran[]>([]);
export const saved = signal<readonly Saved[]>([]);
export const views = signal<readonly Saved[]>([]);
const named = { saved, views };

export const mayRemember = (text: string): boolean => text.length <= charsMax && !mayHoldSecret(text);

const keyOf = (what: string): string | null =>
  me.value === null ? null : `headgate-${what} ${JSON.stringify([me.value.role, me.value.database])}`;

function listOf(what: string): readonly unknown[] {
  const key = keyOf(what);
  try {
    const value: unknown = JSON.parse((key === null ? null : localStorage.getItem(key)) ?? '[]');
    return Array.isArray(value) ? (value as unknown[]) : [];
  } catch {
    return [];
  }
}

/** Reads anew what other tabs may have added. */
export function recall(): void {
  history.value = listOf('history').flatMap((it) => ranOf(it));
  for (const what of ['saved', 'views'] as const) named[what].value = listOf(what).filter(isSaved);
}

/** Older versions kept the text alone. */
function ranOf(it: unknown): readonly Ran[] {
  if (typeof it === 'string') return [{ text: it, said: '' }];
  const { text, said } = (it ?? {}) as Partial<Ran>;
  return typeof text === 'string' && typeof said === 'string' ? [{ text, said }] : [];
}

const isSaved = (it: unknown): it is Saved =>
  typeof it === 'object' &&
  it !== null &&
  typeof (it as Saved).name === 'string' &&
  typeof (it as Saved).text === 'string';

function store(what: string, list: readonly unknown[]): void {
  const key = keyOf(what);
  if (key === null) return;
  try {
    localStorage.setItem(key, JSON.stringify(list));
  } catch {
    // The browser's storage is full: the tab remembers it.
  }
}

export function remember(sql: string): void {
  recall();
  if (!mayRemember(sql)) return;
  history.value = [{ text: sql, said: '' }, ...history.value.filter((it) => it.text !== sql)].slice(
    0,
    historyMax,
  );
  store('history', history.value);
}

/** How many rows it had, or that it failed. */
export function note(sql: string, said: string): void {
  recall();
  history.value = history.value.map((it) => (it.text === sql ? { ...it, said } : it));
  store('history', history.value);
}

/** Returns whether it was saved. */
export function save(what: 'saved' | 'views', name: string, text: string): boolean {
  recall();
  if (!mayRemember(text) || name === '') return false;
  const list = named[what];
  list.value = [{ name, text }, ...list.value.filter((it) => it.name !== name)].slice(0, savedMax);
  store(what, list.value);
  return true;
}

export function forgetHistory(): void {
  history.value = [];
  store('history', []);
}

export function forget(what: 'saved' | 'views', name: string): void {
  recall();
  const list = named[what];
  list.value = list.value.filter((it) => it.name !== name);
  store(what, list.value);
}
