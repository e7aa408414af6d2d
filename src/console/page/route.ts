/** The page's address: `#/place/of?filter=value`. Every view has an address that can be bookmarked. */
import { signal } from '@preact/signals';

export interface Route {
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function read(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    parts: path.split('/').flatMap((part) => {
      try {
        return part === '' ? [] : [decodeURIComponent(part)];
      } catch {
        return [];
      }
    }),
    query: new URLSearchParams(query),
  };
}

export const route = signal<Route>(read());

/** `other`: takes an address that is no place of the page, and the URL before; returns whether it was one. */
export function watchRoute(other: (before: string) => boolean): void {
  addEventListener('hashchange', ({ oldURL }) => {
    if (!other(oldURL)) route.value = read();
  });
}

/** The present address, to which `goTo` leads. */
export const here = (): string => location.hash.replace(/^#/, '');

/** Instead of the present address, which leaves the history. A path of this page only. */
export function goTo(path: string): void {
  history.replaceState(null, '', `#${path.startsWith('/') ? path : '/'}`);
  route.value = read();
}

/** The address of a place; empty values in `query` are left out. */
export function to(parts: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== '');
  const words = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${words === '' ? '' : `?${words}`}`;
}

export function go(
  parts: readonly string[],
  query: Readonly<Record<string, string>> = {},
  replace = false,
): void {
  const address = to(parts, query);
  if (replace) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  route.value = read();
}
