/**
 * Going back brings back where somebody was: how far the page and its list were scrolled, and which row had the focus. A page that is new in the
 * history begins at its top. Each entry of the history has a number in its state; what is remembered lives as long as the page.
 */
import { effect } from '@preact/signals';
import { route } from './route.ts';

interface Place {
  readonly page: number;
  readonly list: number;
  /** The address of the row with the focus. */
  readonly row: string | null;
}

const placesMax = 200;
/** How long the rows may take to load. */
const waitMs = 5_000;
const lookMs = 50;

const places = new Map<number, Place>();
let current = 0;
// Entries of before a reload keep their numbers.
let last = Math.floor(performance.timeOrigin);
let restoring: ReturnType<typeof setInterval> | undefined;

const listOf = (): Element | null => document.querySelector('main .scroll');

function note(): void {
  if (restoring !== undefined) return;
  const row = document.activeElement?.closest('a[data-row]')?.getAttribute('href') ?? null;
  places.set(current, { page: scrollY, list: listOf()?.scrollTop ?? 0, row });
  const [oldest] = places.keys();
  if (places.size > placesMax && oldest !== undefined) places.delete(oldest);
}

function stop(): void {
  clearInterval(restoring);
  restoring = undefined;
}

function restore({ page, list, row }: Place): void {
  stop();
  const untilMs = performance.now() + waitMs;
  restoring = setInterval(() => {
    const found = [...document.querySelectorAll<HTMLElement>('a[data-row]')].find(
      (it) => it.getAttribute('href') === row,
    );
    const isThere = (row === null || found !== undefined) && document.documentElement.scrollHeight >= page;
    if (!isThere && performance.now() < untilMs) return;
    stop();
    found?.focus({ preventScroll: true });
    scrollTo({ top: page });
    listOf()?.scrollTo({ top: list });
  }, lookMs);
}

export function watchPlaces(): void {
  history.scrollRestoration = 'manual';
  addEventListener('scroll', note, { capture: true, passive: true });
  document.addEventListener('focusin', note);
  for (const kind of ['wheel', 'keydown', 'pointerdown'] as const)
    addEventListener(kind, stop, { capture: true, passive: true });
  effect(() => {
    // Each change of the address.
    void route.value;
    const { n } = (history.state ?? {}) as { readonly n?: number };
    if (n === current && n !== 0) return;
    if (n !== undefined) {
      current = n;
      const place = places.get(n);
      if (place !== undefined) restore(place);
      return;
    }
    stop();
    current = last += 1;
    history.replaceState({ n: current }, '');
    scrollTo({ top: 0 });
  });
}
