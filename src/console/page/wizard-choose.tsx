/** The first step: a sender by its brand, another name of it, or how it signs; those that most people use in front; or none of them. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { SenderInfo } from '../api.ts';
import { focused } from './components.tsx';
import { Icon } from './icons.tsx';
import type { IconName } from './icons.tsx';
import { Monogram } from './endpoints.tsx';
import { go, to } from './route.ts';
import type { HmacForm } from '../custom-hmac.ts';

const methods: Readonly<Record<string, string>> = {
  'A signature of the body': 'HMAC of the body',
  'A signature of the body and a timestamp': 'HMAC with a time',
  'Standard Webhooks': 'Standard Webhooks',
  'A public key': 'Public key',
  'A signature of the URL or of fields': 'HMAC of the URL',
  'A token': 'Token',
};

export function methodText({ theme, toleranceS }: SenderInfo): string {
  const method = methods[theme] ?? theme;
  return toleranceS === null
    ? method
    : `${method}, ${toleranceS % 60 === 0 ? `${toleranceS / 60} min` : `${toleranceS} s`}`;
}

/** A name that begins so is in front of one that contains it. */
function found(senders: readonly SenderInfo[], text: string): readonly SenderInfo[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const ranked = senders.flatMap((it) => {
    const names = [it.id, it.name.toLowerCase(), ...it.aliases.map((alias) => alias.toLowerCase())];
    const all = [
      ...names,
      methodText(it).toLowerCase(),
      ...it.headers.map((header) => header.toLowerCase()),
    ].join(' ');
    // “hmac sha256” names a way to sign, of which only the first word is in the list.
    if (!words.every((word) => all.includes(word) || /^sha-?\d+$/.test(word))) return [];
    const first = words[0] ?? '';
    const rank = names.some((name) => name === first)
      ? 0
      : names.some((name) => name.startsWith(first))
        ? 1
        : 2;
    return [{ it, rank }];
  });
  return ranked
    .toSorted((a, b) => a.rank - b.rank || (a.it.rank ?? 99) - (b.it.rank ?? 99))
    .map(({ it }) => it);
}

export function Choose({ senders }: { readonly senders: readonly SenderInfo[] }): JSX.Element {
  const [text, setText] = useState('');
  const [method, setMethod] = useState<string | null>(null);
  const popular = senders
    .filter(({ rank }) => rank !== null)
    .toSorted((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
  const searching = text.trim() !== '' || method !== null;
  const wanted = searching
    ? found(senders, text).filter(({ theme }) => method === null || theme === method)
    : popular;
  return (
    <>
      <input
        data-search
        type="search"
        class="large"
        placeholder="A brand, or how it signs: “whatsapp”, “hmac sha256”, “x-hub-signature”, “jwt”"
        aria-label="Search senders"
        value={text}
        ref={focused}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = wanted;
          if (event.key === 'Enter' && first !== undefined && searching) go(['new', first.id]);
        }}
      />
      <p class="faint" role="status">
        {searching ? `${wanted.length} of ${senders.length} senders` : 'Most used'}
      </p>
      <ul class="senders">
        {wanted.map((it) => (
          <li key={it.id}>
            <a data-row href={to(['new', it.id])} class="card">
              <Monogram of={searching ? it.name : (it.name.split(' (')[0] ?? it.name)} />
              {searching ? <span class="faint">{methodText(it)}</span> : null}
            </a>
          </li>
        ))}
      </ul>
      {wanted.length === 0 ? (
        <p>
          No sender is called so. If it signs with an HMAC, <a href={to(['new', 'hmac'])}>describe it</a>.{' '}
          <button type="button" class="small" onClick={() => (setText(''), setMethod(null))}>
            Show all
          </button>
        </p>
      ) : null}
      <Methods senders={senders} method={method} choose={setMethod} />
      <Others />
    </>
  );
}

interface MethodsProps {
  readonly senders: readonly SenderInfo[];
  readonly method: string | null;
  readonly choose: (method: string | null) => void;
}

function Methods({ senders, method, choose }: MethodsProps): JSX.Element {
  return (
    <div class="row-of wrap">
      <span class="faint">All by how they sign</span>
      {Object.entries(methods).map(([theme, label]) => (
        <button
          key={theme}
          type="button"
          class="small"
          aria-pressed={method === theme}
          onClick={() => choose(method === theme ? null : theme)}
        >
          {label} <span class="faint">{senders.filter((it) => it.theme === theme).length}</span>
        </button>
      ))}
    </div>
  );
}

/** For whoever is none of them. */
function Others(): JSX.Element {
  return (
    <ul class="list others">
      <Other
        kind="hmac"
        icon="secrets"
        name="My own HMAC"
        what="Your header, your algorithm, what is signed: a form writes the check, and tries it on a request of yours"
      />
      <Other
        kind="bearer"
        icon="secrets"
        name="A bearer token"
        what="Authorization: Bearer …, as you choose it"
      />
      <Other kind="api_key" icon="secrets" name="An API key" what="X-API-Key: …, as you choose it" />
      <Other kind="basic_auth" icon="secrets" name="A user and a password" what="Basic authentication" />
      <Other
        kind="anything"
        icon="events"
        name="Anyone, to try it out"
        what="No check. A random name, and a mark until there is a check"
      />
    </ul>
  );
}

interface OtherProps {
  readonly kind: string;
  readonly icon: IconName;
  readonly name: string;
  readonly what: string;
}

function Other({ kind, icon, name, what }: OtherProps): JSX.Element {
  return (
    <li>
      <a data-row class="line row-of" href={to(['new', kind])}>
        <Icon name={icon} />
        <span class="grow">
          <b>{name}</b>
          <br />
          <span class="faint">{what}</span>
        </span>
        <Icon name="go" />
      </a>
    </li>
  );
}

/** What was chosen in the first step. */
export type ChosenSender =
  | { readonly kind: 'sender'; readonly sender: SenderInfo }
  | { readonly kind: 'hmac'; readonly form: HmacForm }
  | { readonly kind: 'anything' };
