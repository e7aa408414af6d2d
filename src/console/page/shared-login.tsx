/**
 * A link that logs in once (`#s=KEY&to=/path`), as whoever opens it sees it: whose login it shares is asked of the server, which does not use it
 * up; it logs in when somebody says so. Programs that look at links for people say nothing. Who is that role already needs no link: it is used up.
 */
import { render } from 'preact';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Me, SharedLogin } from '../api.ts';
import { Wrong } from './components.tsx';
import { Then } from './login.tsx';
import { asFailure, call, logIn, loggedOut, me, offered, token } from './server.ts';
import type { Failure } from './server.ts';
import { askTabs } from './tabs.ts';
import { Text } from './text.tsx';
import { minuteText } from './time-zone.ts';

const look = (key: string, drop = false): Promise<SharedLogin> =>
  call<SharedLogin>('shared-link', { body: { key, drop } });

/** What becomes of the link: it is offered, or used up. */
export async function take(key: string): Promise<void> {
  try {
    if (token.value === null) await askTabs();
    const shared = await look(key);
    const who = token.value === null ? null : (me.value ?? (await call<Me>('me')));
    if (who === null || who.role !== shared.role || who.database !== shared.database) {
      offered.value = { ...shared, key };
      return;
    }
    await look(key, true);
    say('You were logged in already. The link has been used up.');
  } catch (error) {
    const { info } = asFailure(error);
    const text = info.code === 'login_rate' ? `${info.error}: ${info.hint ?? ''}` : sentenceOf(info.error);
    if (token.value === null) loggedOut.value = text;
    else say(text);
  }
}

const sentenceOf = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

/** Until it is closed. */
function say(text: string): void {
  document.querySelector('.toast')?.remove();
  const place = document.createElement('div');
  place.className = 'bulk toast';
  document.body.append(place);
  render(
    <>
      <span class="grow" role="status">
        <Text of={text} max={300} />
      </span>
      <button type="button" class="small quiet" aria-label="Close" onClick={() => place.remove()}>
        ×
      </button>
    </>,
    place,
  );
}

export function SharedLink(): JSX.Element | null {
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  if (offered.value === null) return null;
  const { key, role, database, leftMs } = offered.value;
  const end = (work: Promise<unknown>): void => {
    setBusy(true);
    work.then(
      () => (offered.value = null),
      (error: unknown) => (setBusy(false), setFailure(asFailure(error))),
    );
  };
  return (
    <main class="login">
      <h1>
        <img src="/console/icon.svg" alt="" width="28" height="28" /> Headgate
      </h1>
      <Then />
      <p>
        This link logs you in as{' '}
        <b>
          <Text of={role} max={63} />
        </b>{' '}
        in{' '}
        <b>
          <Text of={database} max={63} />
        </b>
        . You may then do all that this role may: read, change and delete.
      </p>
      <p class="faint">
        It works once. You are logged out with whoever has made it, at {minuteText(Date.now() + leftMs)} at
        the latest.
      </p>
      <p class="row-of wrap">
        <button type="button" class="primary" disabled={busy} onClick={() => end(logIn({ shared: key }))}>
          Log in as <Text of={role} max={63} />
        </button>
        {me.value === null ? (
          <button type="button" disabled={busy} onClick={() => (offered.value = null)}>
            Log in otherwise
          </button>
        ) : (
          <button type="button" disabled={busy} onClick={() => end(look(key, true))}>
            Stay <Text of={me.value.role} max={63} />, and use it up
          </button>
        )}
      </p>
      {failure === null ? null : <Wrong failure={failure} />}
    </main>
  );
}
