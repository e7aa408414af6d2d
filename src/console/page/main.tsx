/** The page: login, the current screen, and what all screens share. */
import { effect } from '@preact/signals';
import { render } from 'preact';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Databases, Entering, wantedDatabase } from './databases.tsx';
import { Icon } from './icons.tsx';
import { Jump, jumping } from './command-palette.tsx';
import { Help, watchKeys } from './keys.tsx';
import { lazy } from './lazy.tsx';
import { watchLive } from './live.ts';
import { needing, useNeeds } from './endpoint-problems.ts';
import { enterByLink, takesLink } from './login-address.ts';
import { Overview } from './overview.tsx';
import { RoleMenu, ZoneMenu, watchTheme } from './frame-menus.tsx';
import { Text } from './text.tsx';
import { addressOfRefused } from '../list-address.ts';
import { forgetLists } from './list-state.ts';
import { watchPlaces } from './scroll-position.ts';
import { goTo, route, settle, to, watchRoute } from './route.ts';
import { isKept } from '../request-filter.ts';
import { isRoute } from '../routes.ts';
import { digitsText } from '../visible-text.ts';
import { away, call, enter, loggedOut, me, notReady, offered, token } from './server.ts';
import { askTabs, rememberPlace, tellTabs, watchTabs } from './tabs.ts';
import { clockText, watchZone } from './time-zone.ts';
import type { Me } from '../api.ts';

// Those that few people open first.
const Diff = lazy(async () => (await import('./diff.tsx')).Diff);
const Endpoint = lazy(async () => (await import('./endpoint.tsx')).Endpoint);
const Endpoints = lazy(async () => (await import('./endpoints.tsx')).Endpoints);
const Events = lazy(async () => (await import('./events.tsx')).Events);
const HealthScreen = lazy(async () => (await import('./health.tsx')).HealthScreen);
const LoginScreen = lazy(async () => (await import('./login.tsx')).LoginScreen);
const Requests = lazy(async () => (await import('./requests.tsx')).Requests);
const RequestPage = lazy(async () => (await import('./request-page.tsx')).RequestPage);
const Secrets = lazy(async () => (await import('./secrets.tsx')).Secrets);
const SharedLink = lazy(async () => (await import('./shared-login.tsx')).SharedLink);
const SqlScreen = lazy(async () => (await import('./sql.tsx')).SqlScreen);
const Wizard = lazy(async () => (await import('./wizard.tsx')).Wizard);

const places = [
  ['', 'Overview', 'overview'],
  ['requests', 'Requests', 'requests'],
  ['endpoints', 'Endpoints', 'endpoints'],
  ['sql', 'SQL', 'sql'],
] as const;
const tools = [
  ['secrets', 'Secrets', 'secrets'],
  ['events', 'Events', 'events'],
  ['health', 'Health', 'health'],
] as const;
const bar = [...places, ...tools];

/** Of pages that the bar does not name. */
const titles: Readonly<Record<string, string>> = { new: 'New endpoint', diff: 'Compared' };

function Screen(): JSX.Element {
  const { parts, query } = route.value;
  const [place = '', first = '', second = '', third = ''] = parts;
  const hasPages =
    !bar.some(([id]) => id === place) || place === 'requests' || (place === 'endpoints' && second !== '');
  if (!isRoute(place) || (first !== '' && !hasPages))
    return (
      <div class="empty">
        There is no such page. <a href={to([])}>Overview</a>
      </div>
    );
  switch (place) {
    case '':
      return <Overview />;
    case 'endpoints':
      // As one of them can be written as well.
      return second === '' ? (
        <Endpoints />
      ) : (
        <Moved address={to(['endpoint', ...parts.slice(1)], Object.fromEntries(query))} />
      );
    case 'endpoint':
      return <Endpoint key={`${first}/${second}`} schema={first} table={second} tab={third} />;
    case 'requests':
      return first === '' ? <Requests query={query} /> : <RequestPage key={first} id={first} query={query} />;
    // As they were called before.
    case 'request':
      return <Moved address={to(['requests'], { schema: first, table: second })} />;
    case 'refused':
      return (
        <Moved
          address={first === '' ? to(['requests'], addressOfRefused(query)) : to(['requests', `r${first}`])}
        />
      );
    case 'diff':
      return <Diff key={`${first}/${second}`} first={first} second={second} />;
    case 'sql':
      return <SqlScreen first={query.get('sql') ?? ''} />;
    case 'events':
      return <Events />;
    case 'secrets':
      return <Secrets />;
    case 'new':
      return <Wizard key={first} kind={first} />;
    case 'health':
      return <HealthScreen />;
  }
}

/** Stands in the history instead of the address that led here. */
function Moved({ address }: { readonly address: string }): null {
  useEffect(() => goTo(address.replace(/^#/, '')), [address]);
  return null;
}

function Navigation(): JSX.Element {
  const [place = ''] = route.value.parts;
  const [open, setOpen] = useState(false);
  const active = ['endpoint', 'new'].includes(place) ? 'endpoints' : place === 'diff' ? 'requests' : place;
  useEffect(() => setOpen(false), [route.value]);
  const links = (of: typeof places | typeof tools): JSX.Element[] =>
    of.map(([id, label, icon]) => (
      <li key={id}>
        <a href={id === '' ? to([]) : to([id])} aria-current={active === id ? 'page' : undefined}>
          <Icon name={icon} /> {label}
          {id === 'endpoints' && me.value !== null ? <Needing key={me.value.database} /> : null}
        </a>
      </li>
    ));
  return (
    <nav aria-label="Console" class={open ? 'open' : undefined}>
      <Who />
      <button type="button" class="jump" onClick={() => (jumping.value = true)}>
        <Icon name="search" /> <span class="grow">Jump to…</span> <kbd>Ctrl K</kbd>
      </button>
      <ul class="places">
        {links(places)}
        <li class="more">
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            <Icon name="more" /> More
          </button>
        </li>
      </ul>
      <div class="tools">
        <h2>Tools</h2>
        <ul>{links(tools)}</ul>
        <Foot />
      </div>
    </nav>
  );
}

/** How many endpoints need somebody. */
function Needing(): JSX.Element | null {
  useNeeds();
  const n = needing();
  if (n === 0) return null;
  return (
    <span class="badge bad needing">
      {digitsText(String(n))}
      <span class="unseen"> {n === 1 ? 'needs' : 'need'} you</span>
    </span>
  );
}

function Who(): JSX.Element {
  const { engine = '' } = me.value ?? {};
  const database = me.value?.database ?? route.value.database ?? '';
  return (
    <div class="brand">
      <a href={to([])} aria-label="Overview">
        <img src="/console/icon.svg" alt="" width="26" height="26" />
      </a>
      <Databases key={database} current={database} engine={engine} />
    </div>
  );
}

function Foot(): JSX.Element | null {
  if (me.value === null) return null;
  return (
    <footer>
      <div class="taking">
        <span class={away.value === null ? 'dot on' : 'dot later'} />
        <span>{away.value === null ? 'Taking requests' : away.value}</span>
      </div>
      <ZoneMenu />
      <RoleMenu />
    </footer>
  );
}

/** Since when something does not answer, what senders get meanwhile, and what is on the screen. */
function Away({ what }: { readonly what: string }): JSX.Element {
  const since = useRef(Date.now());
  const reason = notReady.value;
  return (
    <div class="strip away" role="status">
      <div class="grow">
        <b>
          {what} since {clockText(since.current)}.
        </b>{' '}
        <span class="says">
          {reason === null
            ? ''
            : 'Requests are kept on disk where an endpoint allows it (202); other senders are told to come again (503). What was accepted is safe. What creates or changes something needs the database. '}
          You see the last known state; this page comes back by itself.
        </span>
        {reason === null ? null : (
          <div class="mono faint">
            <Text of={reason} max={300} />
          </div>
        )}
      </div>
      {reason === null ? null : (
        <a class="button" href={to(['health'])}>
          Details
        </a>
      )}
    </div>
  );
}

/** What had the focus may be gone with the page that was left: the next Tab then begins in the new one, not before the side bar. */
function useFocusKept(): void {
  const isFirst = useRef(true);
  const address = route.value.parts.join('/');
  useEffect(() => {
    if (!isFirst.current && document.activeElement === document.body)
      document.querySelector('main')?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [address]);
}

function Page(): JSX.Element {
  useFocusKept();
  if (offered.value !== null) return <SharedLink />;
  if (token.value === null) return <LoginScreen />;
  const wanted = wantedDatabase();
  return (
    <div class="frame">
      <a
        class="unseen"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.querySelector('main')?.focus())}
      >
        Skip to content
      </a>
      <Navigation />
      <main id="main" tabIndex={-1}>
        {away.value === null ? null : <Away key={away.value} what={away.value} />}
        {wanted === null ? <Screen key={token.value} /> : <Entering key={wanted} database={wanted} />}
      </main>
      <Help />
      <Jump />
    </div>
  );
}

function readMe(): void {
  call<Me>('me').then(
    (it) => {
      const isNew = me.value === null;
      me.value = it;
      if (isNew) settle();
      // Only now can it answer those who ask.
      if (isNew) tellTabs('in');
      if (document.hasFocus()) rememberPlace();
    },
    () => undefined,
  );
}

async function begin(): Promise<void> {
  watchTheme();
  watchZone();
  watchTitle();
  const entering = enterByLink();
  watchRoute(takesLink);
  watchPlaces();
  watchLive();
  watchKeys();
  watchTabs(readMe, enter);
  const place = document.getElementById('page');
  if (place === null) return;
  await entering;
  token.subscribe((value) => {
    forgetLists();
    if (value !== null) readMe();
  });
  if (token.value === null && loggedOut.value === null && offered.value === null) await askTabs();
  render(<Page />, place);
}

/** “payments · Headgate”: by it a tab, a bookmark and an entry of the history are found again. */
function watchTitle(): void {
  effect(() => {
    const { parts } = route.value;
    const [place = 'overview', first = '', table = ''] = parts;
    const titled = bar.find(([id]) => id === place)?.[1] ?? titles[place] ?? 'Overview';
    const name =
      place === 'endpoint'
        ? table
        : first === ''
          ? titled
          : `${titled} ${isKept(first) ? first.slice(1) : first}`;
    document.title = `${name} · Headgate`;
  });
}

void begin();
