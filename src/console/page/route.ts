/**
 * The page's address: `#/database/place/of?filter=value`. Every view has an address that can be sent to a colleague. Addresses without a
 * database, which older versions wrote, mean the one of the tab.
 */
import { signal } from '@preact/signals';
import { routes } from '../routes.ts';
import { me } from './server.ts';

interface PageRoute {
  /** null: the address names none. */
  readonly database: string | null;
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

/** The first parts of the addresses of pages. A database may have such a name. */
const places = new Set<string>(['overview', ...routes.filter((it) => it !== '')]);
const isPlace = (part: string | undefined): boolean => part !== undefined && places.has(part);

function read(): PageRoute {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const all = path.split('/').flatMap((part) => {
    try {
      return part === '' ? [] : [decodeURIComponent(part)];
    } catch {
      return [];
    }
  });
  const [first, ...others] = all;
  const named = first !== undefined && (!isPlace(first) || isPlace(others[0]));
  const parts = named ? others : all;
  return {
    database: named ? first : null,
    parts: parts[0] === 'overview' ? [] : parts,
    query: new URLSearchParams(query),
  };
}

export const route = signal<PageRoute>(read());

/** What the address means now; one without a database gets that of the tab. */
export function settle(): void {
  route.value = read();
  const { database, parts, query } = route.value;
  if (database !== null || me.value === null) return;
  history.replaceState(history.state, '', to(parts, Object.fromEntries(query)));
  route.value = read();
}

/** `other`: takes an address that is no place of the page, and the URL before; returns whether it was one. */
export function watchRoute(other: (before: string) => boolean): void {
  addEventListener('hashchange', ({ oldURL }) => {
    if (!other(oldURL)) settle();
  });
}

/** The present address, to which `goTo` leads. */
export const here = (): string => location.hash.replace(/^#/, '');

/** Instead of the present address, which leaves the history. A path of this page only. */
export function goTo(path: string): void {
  history.replaceState(history.state, '', `#${path.startsWith('/') ? path : '/'}`);
  settle();
}

/** The address of a place in the tab's database; empty values in `query` are left out. */
export function to(
  parts: readonly string[],
  query: Readonly<Record<string, string>> = {},
  database: string | null = me.value?.database ?? route.value.database,
): string {
  const kept = Object.entries(query).filter(([, value]) => value !== '');
  const words = new URLSearchParams(kept).toString();
  // A database that is called like a page, without a page behind it, would be that page.
  const all =
    database === null
      ? parts
      : [database, ...(parts.length === 0 && isPlace(database) ? ['overview'] : parts)];
  return `#/${all.map(encodeURIComponent).join('/')}${words === '' ? '' : `?${words}`}`;
}

export function go(
  parts: readonly string[],
  query: Readonly<Record<string, string>> = {},
  replace = false,
): void {
  const address = to(parts, query);
  if (replace) history.replaceState(history.state, '', address);
  else history.pushState(null, '', address);
  route.value = read();
}
