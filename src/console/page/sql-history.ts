/**
 * What the browser remembers of the SQL page, for one role and database: saved statements and those that ran, in localStorage; the draft, for
 * the tab, in sessionStorage. A statement that contains a secret is not remembered, and no result is.
 */
import { effect, signal } from '@preact/signals';
import { mayHoldSecret } from '../statements.ts';
import { me } from './server.ts';

const historyMax = 200;
const savedMax = 200;
const charsMax = 20_000;

export interface Saved {
  readonly name: string;
  readonly sql: string;
}

export const history = signal<readonly string[]>([]);
export const saved = signal<readonly Saved[]>([]);

const draftKey = 'headgate-draft';
export const draft = signal(sessionStorage.getItem(draftKey) ?? '');

const mayRemember = (sql: string): boolean => sql.length <= charsMax && !mayHoldSecret(sql);

effect(() => {
  if (mayRemember(draft.value)) sessionStorage.setItem(draftKey, draft.value);
  else sessionStorage.removeItem(draftKey);
});

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
  history.value = listOf('history').filter((it) => typeof it === 'string');
  saved.value = listOf('saved').filter(
    (it): it is Saved =>
      typeof it === 'object' &&
      it !== null &&
      typeof (it as Saved).name === 'string' &&
      typeof (it as Saved).sql === 'string',
  );
}

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
  history.value = [sql, ...history.value.filter((it) => it !== sql)].slice(0, historyMax);
  store('history', history.value);
}

/** Returns whether it was saved. */
export function save(name: string, sql: string): boolean {
  recall();
  if (!mayRemember(sql) || name === '') return false;
  saved.value = [{ name, sql }, ...saved.value.filter((it) => it.name !== name)].slice(0, savedMax);
  store('saved', saved.value);
  return true;
}

export function forget(what: 'history' | 'saved', name?: string): void {
  recall();
  if (what === 'history') history.value = [];
  else saved.value = name === undefined ? [] : saved.value.filter((it) => it.name !== name);
  store(what, what === 'history' ? history.value : saved.value);
}
