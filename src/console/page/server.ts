/** The only file that talks to the server: `/console/api/…`, with the session's token, which lives as long as the tab. */
import { computed, signal } from '@preact/signals';
import { abortWith } from '../../kit/abort-signal.ts';
import type { ApiError, Login, LoginRequest, Me, SharedLogin, SqlResponse, TailEvent } from '../api.ts';
import { zoneName } from './time-zone.ts';

const tokenKey = 'headgate-token';

export const token = signal<string | null>(sessionStorage.getItem(tokenKey));
export const me = signal<Me | null>(null);
/** Headgate does not answer. */
const serverAway = signal(false);
/** Why no request can be accepted: told once a second, and by what a statement got for an answer. */
export const notReady = signal<string | null>(null);
/** What does not answer; the screen keeps what it showed. */
export const away = computed(() =>
  serverAway.value
    ? 'Headgate does not answer'
    : notReady.value === null
      ? null
      : 'The database does not answer',
);
/** Why the session has ended. */
export const loggedOut = signal<string | null>(null);

/** A link that would log in: what it gives is told first. */
export const offered = signal<(SharedLogin & { readonly key: string }) | null>(null);

/** A refusal of the server. */
export class Failure extends Error {
  readonly info: ApiError;

  constructor(info: ApiError) {
    super(info.error);
    this.name = 'Failure';
    this.info = info;
  }
}

/** What was thrown, as it is shown. */
export const asFailure = (error: unknown): Failure =>
  error instanceof Failure ? error : new Failure({ error: String(error), code: 'internal' });

export interface CallOptions {
  readonly body?: unknown;
  readonly signal?: AbortSignal | null;
  /** Sent by the page, not by the user: it does not keep the session alive. */
  readonly auto?: boolean;
}

function headersOf(auto: boolean): Record<string, string> {
  return {
    'x-headgate-console': '1',
    ...(auto ? { 'x-headgate-auto': '1' } : {}),
    ...(token.value === null ? {} : { authorization: `Bearer ${token.value}` }),
  };
}

/** Throws Failure, or an AbortError if `signal` aborts. */
export async function call<T>(
  path: string,
  { body, signal: abort = null, auto = false }: CallOptions = {},
): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/console/api/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...headersOf(auto), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: abort,
      cache: 'no-store',
    });
  } catch (error) {
    if (abort?.aborted === true) throw error;
    serverAway.value = true;
    throw new Failure({ error: 'Headgate does not answer', code: 'away' });
  }
  serverAway.value = false;
  const unread = { error: 'the answer cannot be read', code: 'away' };
  const answer = (await response.json().catch(() => unread)) as unknown;
  // Leaving a view, or the end of the connection, can cut an answer off after its status.
  if (response.ok && answer !== unread) return answer as T;
  const info = answer as ApiError;
  if (info.code === 'engine_unavailable') notReady.value ??= 'a statement got no answer';
  if (info.code === 'login_required') leave('The session has ended.');
  throw new Failure(info);
}

/** A statement of the user, or one that creates or changes something where the user's search_path leads. */
export function run(
  sql: string,
  write = false,
  options: Omit<CallOptions, 'body'> = {},
): Promise<SqlResponse> {
  return call<SqlResponse>('sql', { ...options, body: { sql, write, zone: zoneName.value } });
}

/** A statement of a view, which only reads. `zone`: that of times in the answer; '': UTC. */
export function look(sql: string, options: Omit<CallOptions, 'body'> = {}, zone = ''): Promise<SqlResponse> {
  return call<SqlResponse>('sql', { ...options, body: { sql, write: false, own: true, zone } });
}

export async function logIn(request: LoginRequest): Promise<void> {
  enter((await call<Login>('login', { body: request })).token);
  // They may be those of another role.
  entered.clear();
}

/** With a token of its own. */
export function enter(given: string): void {
  sessionStorage.setItem(tokenKey, given);
  me.value = null;
  token.value = given;
  loggedOut.value = null;
}

/** Tokens of this tab, by database: going to and fro begins no session anew. */
const entered = new Map<string, string>();

/** The same role in another database. */
export async function enterDatabase(database: string): Promise<void> {
  if (me.value !== null && token.value !== null) entered.set(me.value.database, token.value);
  const known = entered.get(database);
  enter(
    known !== undefined && (await isValid(known))
      ? known
      : (await call<Login>('tab', { body: { database } })).token,
  );
}

async function isValid(known: string): Promise<boolean> {
  const headers = { ...headersOf(true), authorization: `Bearer ${known}` };
  return fetch('/console/api/me', { headers, cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  );
}

export async function logOut(): Promise<void> {
  await call('logout', { body: {} }).catch(() => undefined);
  leave(null);
}

function leave(why: string | null): void {
  sessionStorage.removeItem(tokenKey);
  token.value = null;
  me.value = null;
  entered.clear();
  loggedOut.value = why;
}

/** Longer than several signs of life take. */
const silentMs = 4_000;

/**
 * Runs until the stream ends, is silent or `abort` aborts; throws Failure if it cannot begin. EventSource cannot send the token. `open` is
 * called as soon as there is an answer.
 */
export async function tail(
  open: () => void,
  told: (event: TailEvent) => void,
  abort: AbortSignal,
): Promise<void> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), silentMs);
  const signal = abortWith(abort, silent.signal);
  try {
    const response = await fetch('/console/api/tail', {
      headers: headersOf(true),
      signal,
      cache: 'no-store',
    });
    if (response.status === 401) leave('The session has ended.');
    if (!response.ok || response.body === null) throw new Failure({ error: 'no live view', code: 'away' });
    open();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), silentMs);
      serverAway.value = false;
      const lines = (text + decoder.decode(value, { stream: true })).split('\n');
      text = lines.pop() ?? '';
      for (const line of lines)
        if (line.startsWith('data: ')) {
          const event = JSON.parse(line.slice(6)) as TailEvent;
          if (event.notReady !== undefined) notReady.value = event.notReady;
          told(event);
        }
    }
  } catch (error) {
    if (!abort.aborted && !(error instanceof Failure)) serverAway.value = true;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
