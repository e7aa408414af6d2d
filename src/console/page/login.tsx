/** Login: by the link that Headgate printed, or with a role and password of the SQL port. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { LoginInfo } from '../api.ts';
import { shellWord } from '../quote.ts';
import { useLoaded } from './load.ts';
import { goTo, here, route } from './route.ts';
import { Code, Skeleton, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { call, loggedOut, logIn, token } from './server.ts';
import type { Failure } from './server.ts';

/**
 * Whether the address is a link, `#t=KEY` or `#t=KEY&to=/path`. It works once; its key is removed from the address, and thus from the browser's
 * history, before it is used, and it is used up even if somebody is in already. Without a path the page stays where it was (`before`, a URL).
 * `#s=KEY…` is a link by which somebody shares a login (`shared-login.tsx`).
 */
export function takesLink(before = ''): boolean {
  const [, kind, link, path] = /^#([st])=([\w-]+)(?:&to=(.*))?$/.exec(location.hash) ?? [];
  if (link === undefined) return false;
  goTo(path ?? /#(.*)$/.exec(before)?.[1] ?? '/');
  entering = (
    kind === 's' ? import('./shared-login.tsx').then(({ take }) => take(link)) : logIn({ link })
  ).catch(() => {
    if (token.value === null) loggedOut.value = 'This link was already used, or is older than ten minutes.';
  });
  return true;
}

/** The login by the last link. */
let entering: Promise<void> = Promise.resolve();
export const enterByLink = (): Promise<void> => {
  takesLink();
  return entering;
};

export function LoginScreen(): JSX.Element {
  const info = useLoaded('login', (options) => call<LoginInfo>('login', options));
  return (
    <main class="login">
      <h1>
        <img src="/console/icon.svg" alt="" width="28" height="28" /> Headgate
      </h1>
      {loggedOut.value === null ? null : (
        <p class="strip" role="alert">
          {loggedOut.value}
        </p>
      )}
      <Then />
      {info.failure === null ? null : <Wrong failure={info.failure} />}
      {info.value === null ? info.failure === null && <Skeleton /> : null}
      {info.value?.by === 'link' ? <ByLink /> : null}
      {info.value?.by === 'password' ? <ByPassword database={info.value.database} /> : null}
    </main>
  );
}

/** Where the login leads. */
export function Then(): JSX.Element | null {
  const { database, parts } = route.value;
  if (parts.length === 0) return null;
  return (
    <p class="notice">
      Then:{' '}
      <b>
        <Text of={parts.join(' / ')} max={120} />
      </b>
      {database === null ? null : (
        <>
          {' '}
          in <Text of={database} max={80} />
        </>
      )}
    </p>
  );
}

function ByLink(): JSX.Element {
  return (
    <>
      <p>Log in with a link, which works once and for ten minutes. On the machine that runs Headgate:</p>
      <Code text={`headgate console${here().length > 1 ? ` --open ${shellWord(here())}` : ''}`} />
      <p class="faint">Paste what it prints into the address bar of this tab or another one.</p>
      <p class="faint">
        In a container: docker compose exec headgate node /opt/headgate/dist/src/app/cli.js console
      </p>
    </>
  );
}

function ByPassword({ database }: { readonly database: string }): JSX.Element {
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  const enter = (form: HTMLFormElement): void => {
    const given = new FormData(form);
    const text = (name: string): string => {
      const value = given.get(name);
      return typeof value === 'string' ? value : '';
    };
    setBusy(true);
    setFailure(null);
    logIn({ user: text('user'), password: text('password'), database: text('database') }).catch(
      (error: unknown) => {
        setBusy(false);
        setFailure(error as Failure);
      },
    );
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        enter(event.currentTarget);
      }}
    >
      <p>Use a role and password of the SQL port. You see what that role may see there.</p>
      <label>
        Role <input name="user" required autocomplete="username" autofocus />
      </label>
      <label>
        Password <input name="password" type="password" autocomplete="current-password" />
      </label>
      <label>
        Database <input name="database" required value={database} autocomplete="off" />
      </label>
      <button type="submit" class="primary" disabled={busy}>
        Log in
      </button>
      {failure === null ? null : <Wrong failure={failure} />}
    </form>
  );
}
