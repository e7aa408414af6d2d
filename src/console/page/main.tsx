/** The page: login, the current screen, and what all screens share. */
import { render } from 'preact';
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { Databases } from './databases.tsx';
import { Endpoint } from './endpoint.tsx';
import { Endpoints } from './endpoints.tsx';
import { Help, watchKeys } from './keys.tsx';
import { lazy } from './lazy.tsx';
import { watchLive } from './live.ts';
import { enterByLink, LoginScreen, takesLink } from './login.tsx';
import { Overview } from './overview.tsx';
import { Text } from './parts.tsx';
import { addressOfRefused } from './list-address.ts';
import { forgetLists } from './list-state.ts';
import { goTo, route, to, watchRoute } from './route.ts';
import { isRoute } from '../routes.ts';
import { away, call, enter, loggedOut, logOut, me, token } from './server.ts';
import { askTabs, rememberPlace, tellTabs, watchTabs } from './tabs.ts';
import { theme, watchTheme } from './theme.ts';
import type { Me } from '../api.ts';

// All but what a new tab begins with.
const Diff = lazy(async () => (await import('./diff.tsx')).Diff);
const Events = lazy(async () => (await import('./events.tsx')).Events);
const HealthScreen = lazy(async () => (await import('./health.tsx')).HealthScreen);
const Requests = lazy(async () => (await import('./requests.tsx')).Requests);
const RequestPage = lazy(async () => (await import('./request-page.tsx')).RequestPage);
const Secrets = lazy(async () => (await import('./secrets.tsx')).Secrets);
const SqlScreen = lazy(async () => (await import('./sql.tsx')).SqlScreen);
const Wizard = lazy(async () => (await import('./wizard.tsx')).Wizard);

const places = [
  ['', 'Overview'],
  ['requests', 'Requests'],
  ['endpoints', 'Endpoints'],
  ['sql', 'SQL'],
  ['secrets', 'Secrets'],
  ['events', 'Events'],
  ['health', 'Health'],
] as const;

function Screen(): JSX.Element {
  const { parts, query } = route.value;
  const [place = '', first = '', second = '', third = ''] = parts;
  if (!isRoute(place))
    return (
      <div class="empty">
        There is no such page. <a href={to([])}>Overview</a>
      </div>
    );
  switch (place) {
    case '':
      return <Overview />;
    case 'endpoints':
      return <Endpoints />;
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
  const active = ['endpoint', 'new'].includes(place) ? 'endpoints' : place === 'diff' ? 'requests' : place;
  return (
    <nav aria-label="Console">
      <a class="brand" href={to([])}>
        <img src="/console/icon.svg" alt="" width="22" height="22" /> Headgate
      </a>
      <ul>
        {places.map(([id, label]) => (
          <li key={id}>
            <a href={id === '' ? to([]) : to([id])} aria-current={active === id ? 'page' : undefined}>
              {label}
            </a>
          </li>
        ))}
      </ul>
      <Who />
    </nav>
  );
}

function Who(): JSX.Element | null {
  if (me.value === null) return null;
  const { role, database, version } = me.value;
  return (
    <footer>
      <div class="who" title={me.value.engine}>
        <b>
          <Text of={role} max={40} />
        </b>
        {' on '}
        <Databases current={database} />
      </div>
      <div class="faint">Headgate {version}</div>
      <div class="row-of">
        <label>
          <span class="unseen">Theme</span>
          <select
            class="small"
            value={theme.value}
            onChange={(event) => (theme.value = event.currentTarget.value)}
          >
            <option value="auto">auto</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
        <button type="button" class="small quiet" onClick={() => void logOut().then(() => tellTabs('out'))}>
          Log out
        </button>
      </div>
    </footer>
  );
}

function Page(): JSX.Element {
  if (token.value === null) return <LoginScreen />;
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
        {away.value === null ? null : (
          <div class="strip" role="status">
            {away.value}: you see the last known state. Retrying.
          </div>
        )}
        <Screen key={token.value} />
      </main>
      <Help />
    </div>
  );
}

function readMe(): void {
  call<Me>('me').then(
    (it) => {
      const isNew = me.value === null;
      me.value = it;
      // Only now can it answer those who ask.
      if (isNew) tellTabs('in');
      if (document.hasFocus()) rememberPlace();
    },
    () => undefined,
  );
}

async function begin(): Promise<void> {
  watchTheme();
  const entering = enterByLink();
  watchRoute(takesLink);
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
  if (token.value === null && loggedOut.value === null) await askTabs();
  render(<Page />, place);
}

void begin();
