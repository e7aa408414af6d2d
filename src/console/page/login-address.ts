/** Links that log in: in the address, or pasted into a field. */
import { goTo } from './route.ts';
import { asFailure, loggedOut, logIn, token } from './server.ts';

export interface LoginLink {
  readonly kind: string;
  readonly key: string;
  /** null: it leads nowhere. */
  readonly path: string | null;
}

/** `#t=KEY`, `#s=KEY`, each with or without `&to=/path`; null: it is none. */
function linkOf(hash: string): LoginLink | null {
  const [, kind = '', key, path = null] = /^#([st])=([\w-]+)(?:&to=(.*))?$/.exec(hash) ?? [];
  return key === undefined ? null : { kind, key, path };
}

/** What was pasted: a link, whatever it begins with and however the terminal has wrapped it, or its key alone. */
export function pastedLink(text: string): LoginLink | null {
  const whole = text.replaceAll(/\s/g, '');
  return linkOf(whole.slice(whole.indexOf('#'))) ?? linkOf(`#${whole}`) ?? linkOf(`#t=${whole}`);
}

/**
 * Whether the address is a link. It works once; its key is removed from the address, and thus from the browser's history, before it is used, and
 * it is used up even if somebody is in already. Without a path the page stays where it was (`before`, a URL). `#s=KEY…` is a link by which somebody
 * shares a login (`shared-login.tsx`).
 */
export function takesLink(before = ''): boolean {
  const link = linkOf(location.hash);
  if (link === null) return false;
  goTo(link.path ?? /#(.*)$/.exec(before)?.[1] ?? '/');
  entering = enterBy(link);
  return true;
}

/** A link that does not log in says so on the login page. */
export async function enterBy({ kind, key }: LoginLink): Promise<void> {
  try {
    await (kind === 's' ? (await import('./shared-login.tsx')).take(key) : logIn({ link: key }));
  } catch (error) {
    if (token.value !== null) return;
    loggedOut.value =
      asFailure(error).info.code === 'login_failed'
        ? 'This link was already used, or is older than ten minutes.'
        : asFailure(error).info.error;
  }
}

/** The login by the last link. */
let entering: Promise<void> = Promise.resolve();
export const enterByLink = (): Promise<void> => {
  takesLink();
  return entering;
};
