/** What a view shows from the server: requested when it opens, then periodically, and kept on the screen while the server does not answer. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SqlTable } from '../api.ts';
import { asFailure, look } from './server.ts';
import type { CallOptions, Failure } from './server.ts';

export interface Loaded<T> {
  /** null: not loaded yet, or loading failed. */
  readonly value: T | null;
  readonly failure: Failure | null;
  readonly reload: () => void;
  /** The same, but not on behalf of the user. */
  readonly refresh: () => void;
}

type Load<T> = (options: Omit<CallOptions, 'body'>) => Promise<T>;

/** A different `key` means a different request. `everyMs` 0: loads once. */
export function useLoaded<T>(key: string, load: Load<T>, everyMs = 0): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; failure: Failure | null }>({
    key,
    value: null,
    failure: null,
  });
  const [turn, setTurn] = useState({ n: 0, auto: false });
  useEffect(() => {
    const ending = new AbortController();
    let soon = 0;
    const ask = (auto: boolean): void => {
      clearTimeout(soon);
      load({ signal: ending.signal, auto }).then(
        (value) => setState({ key, value, failure: null }),
        (error: unknown) => {
          if (ending.signal.aborted) return;
          const failure = asFailure(error);
          // Its role's other statements end soon.
          if (failure.info.code === 'overloaded') soon = setTimeout(ask, 1_000, true);
          setState((before) => ({ key, value: before.key === key ? before.value : null, failure }));
        },
      );
    };
    ask(turn.auto);
    const timer = everyMs === 0 ? 0 : setInterval(() => document.hidden || ask(true), everyMs);
    return () => {
      clearInterval(timer);
      clearTimeout(soon);
      ending.abort();
    };
  }, [key, turn.n]);
  const fresh = state.key === key;
  return {
    value: fresh ? state.value : null,
    failure: fresh ? state.failure : null,
    reload: () => setTurn(({ n }) => ({ n: n + 1, auto: false })),
    refresh: () => setTurn(({ n }) => ({ n: n + 1, auto: true })),
  };
}

/** Asks again when `mark` changes, unless it was null until now, or `key` has changed: then what is asked is new anyway. */
export function useRefreshed({ refresh }: Loaded<unknown>, key: string, mark: unknown): void {
  const known = useRef({ key, mark });
  useEffect(() => {
    const before = known.current;
    known.current = { key, mark };
    if (before.key === key && before.mark !== null && before.mark !== mark) refresh();
  }, [key, mark]);
}

interface Requested<T> {
  readonly answer: T | null;
  readonly failure: Failure | null;
  readonly ask: (answering: Promise<T>) => void;
}

/** The answer to a request that a button starts. */
export function useAsked<T>(): Requested<T> {
  const [state, setState] = useState<Omit<Requested<T>, 'ask'>>({ answer: null, failure: null });
  const ask = (answering: Promise<T>): void => {
    setState({ answer: null, failure: null });
    answering.then(
      (answer) => setState({ answer, failure: null }),
      (error: unknown) => setState({ answer: null, failure: error as Failure }),
    );
  };
  return { ...state, ask };
}

export type ResultRow = Readonly<Record<string, string | null>>;

/** The rows of one read-only statement, keyed by column name. */
export function useRows(sql: string, everyMs = 0): Loaded<readonly ResultRow[]> {
  return useLoaded(sql, async (options) => rowsOf((await look(sql, options)).tables.at(-1)), everyMs);
}

/** `null`: runs nothing for now. */
export function useRowsIf(sql: string | null, everyMs = 0): Loaded<readonly ResultRow[]> {
  const none = async (): Promise<readonly ResultRow[]> => [];
  const load: Load<readonly ResultRow[]> =
    sql === null ? none : async (options) => rowsOf((await look(sql, options)).tables.at(-1));
  return useLoaded(sql ?? '', load, sql === null ? 0 : everyMs);
}

export function rowsOf(table: SqlTable | undefined): readonly ResultRow[] {
  if (table === undefined) return [];
  return table.rows.map((row) =>
    Object.fromEntries(table.columns.map(({ name }, i) => [name, row[i] ?? null])),
  );
}

/** A text as it is 250 ms after it was last changed. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
