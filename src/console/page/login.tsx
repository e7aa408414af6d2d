/** Login: by the link that Headgate printed, or with a role and password of the SQL port. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { LoginInfo } from '../api.ts';
import { shellWord } from '../quote.ts';
import { useLoaded } from './load.ts';
import { enterBy, pastedLink } from './login-address.ts';
import type { LoginLink } from './login-address.ts';
import { goTo, here, route } from './route.ts';
import { Code, Skeleton, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { call, loggedOut, logIn } from './server.ts';
import type { Failure } from './server.ts';

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

/** Requests / 1284 */
const placeText = ([place = '', ...of]: readonly string[]): string =>
  [
    `${place.slice(0, 1).toUpperCase()}${place.slice(1)}`,
    ...of.map((it) => it.replace(/^r(?=\d+$)/, '')),
  ].join(' / ');

/** Where the login leads. */
export function Then(): JSX.Element | null {
  const { database, parts } = route.value;
  if (parts.length === 0) return null;
  return (
    <p class="notice">
      Then:{' '}
      <b>
        <Text of={placeText(parts)} max={120} />
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
      <Paste />
      <p class="faint">
        In a container: docker compose exec headgate node /opt/headgate/dist/src/app/cli.js console
      </p>
    </>
  );
}

/** Characters of a key: a link with fewer is still being typed. */
const keyChars = 43;

/** A link that is pasted is used at once, any other text after Enter; the page stays where it was, unless the link leads elsewhere. */
function Paste(): JSX.Element {
  const [isOther, setOther] = useState(false);
  const [busy, setBusy] = useState(false);
  const use = (field: HTMLInputElement, link: LoginLink): void => {
    field.value = '';
    setOther(false);
    setBusy(true);
    if (link.path !== null) goTo(link.path);
    void enterBy(link).then(() => setBusy(false));
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const field = event.currentTarget.elements.namedItem('link') as HTMLInputElement;
        const link = pastedLink(field.value);
        setOther(link === null);
        if (link !== null) use(field, link);
      }}
    >
      <label>
        It prints a link. Open it, or paste it here:
        <input
          name="link"
          autofocus
          autocomplete="off"
          spellcheck={false}
          disabled={busy}
          placeholder="http://…/console/#t=…"
          onInput={({ currentTarget: field }) => {
            const link = field.value.includes('#') ? pastedLink(field.value) : null;
            if (link !== null && link.key.length >= keyChars) use(field, link);
          }}
        />
      </label>
      {isOther ? <p role="alert">This is no link of Headgate.</p> : null}
    </form>
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
