/**
 * A new tab is logged in by another one of the same browser: no cookie, which other ports of the machine would get. The tabs talk in a channel that
 * only pages of this origin hear:
 *
 *   ask (new tab) → offer (each tab that is in) → take (of one of them) → give (a token of its own, from the server)
 *
 * Tabs of one login count each other: count → here.
 *
 * A tab that still waits asks again when another tab has logged in; when one logs out, the others look whether their session still exists.
 */
import { signal } from '@preact/signals';
import { call, me, token } from './server.ts';
import type { Login, Me } from '../api.ts';

type Said =
  | { readonly kind: 'ask' | 'in' | 'out'; readonly nonce: string }
  | { readonly kind: 'offer'; readonly nonce: string; readonly tab: string; readonly place: string }
  | { readonly kind: 'take'; readonly nonce: string; readonly tab: string }
  | { readonly kind: 'give'; readonly nonce: string; readonly token: string }
  | { readonly kind: 'count' | 'here'; readonly nonce: string; readonly login: string };

/** How long offers of the last used role and database are preferred to others, and how long a tab waits before it shows the login. */
const preferMs = 150;
const waitMs = 1_000;
const placeKey = 'headgate-place';

const self = crypto.getRandomValues(new Uint32Array(2)).join('-');
const channel = new BroadcastChannel('headgate');
// A channel is heard by its own origin alone, and takes no other.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
const say = (said: Said): void => channel.postMessage(said);

const placeOf = ({ role, database }: Me): string => JSON.stringify([role, database]);

/** Remembers whose tab was used last: a tab that is opened from it belongs there. */
export function rememberPlace(): void {
  if (me.value !== null) localStorage.setItem(placeKey, placeOf(me.value));
}

let nonce = '';
let taken = false;
let others: string[] = [];
let enter: (given: string) => void;

/** Asks the other tabs; resolves when one has answered, or after a second: an answer may come later, too. */
export function askTabs(): Promise<void> {
  ask();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, waitMs);
    const stop = token.subscribe((value) => {
      if (value === null) return;
      clearTimeout(timer);
      resolve();
      setTimeout(() => stop());
    });
  });
}

function ask(): void {
  nonce = `${self} ${Date.now()}`;
  [taken, others] = [false, []];
  say({ kind: 'ask', nonce });
  const mine = nonce;
  setTimeout(() => {
    const [first] = others;
    if (mine === nonce && first !== undefined) take(first);
  }, preferMs);
}

function take(tab: string): void {
  if (taken) return;
  taken = true;
  say({ kind: 'take', nonce, tab });
}

function offered(tab: string, place: string): void {
  const last = localStorage.getItem(placeKey);
  if (last === null || last === place) take(tab);
  else others.push(tab);
}

async function give(to: string): Promise<void> {
  try {
    const { token: given } = await call<Login>('tab', { body: {}, auto: true });
    say({ kind: 'give', nonce: to, token: given });
  } catch {
    // The one that asked shows the login.
  }
}

/** `look`: finds out whether the session still exists; `entered`: takes a token. */
export function watchTabs(look: () => void, entered: (given: string) => void): void {
  enter = entered;
  channel.addEventListener('message', ({ data }: MessageEvent<Said>) => {
    const isIn = token.value !== null;
    if (data.kind === 'ask' && isIn && me.value !== null)
      say({ kind: 'offer', nonce: data.nonce, tab: self, place: placeOf(me.value) });
    else if (data.kind === 'take' && data.tab === self && isIn) void give(data.nonce);
    else if (data.kind === 'offer' && !isIn && data.nonce === nonce) offered(data.tab, data.place);
    else if (data.kind === 'give' && !isIn && data.nonce === nonce) enter(data.token);
    else if (data.kind === 'in' && !isIn) ask();
    else if (data.kind === 'count' && data.login === me.value?.login) say({ ...data, kind: 'here' });
    else if (data.kind === 'here' && data.nonce === counting) openTabs.value += 1;
    else if (data.kind === 'out' && isIn) look();
  });
  addEventListener('pointerdown', rememberPlace, { capture: true });
  addEventListener('keydown', rememberPlace, { capture: true });
}

let counting = '';
/** How many tabs of this login have answered, this one included. */
export const openTabs = signal(1);

export function countTabs(): void {
  counting = `${self} ${performance.now()}`;
  openTabs.value = 1;
  say({ kind: 'count', nonce: counting, login: me.value?.login ?? '' });
}

export const tellTabs = (kind: 'in' | 'out'): void => say({ kind, nonce: self });
