/** Ctrl K: endpoints by a part of their name, which the server looks for, and pages. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { findEndpoints } from '../endpoint-list.ts';
import { useDialog } from './dialog.ts';
import { useRowsIf, useSettled } from './load.ts';
import { Text } from './text.tsx';
import { to } from './route.ts';

export const jumping = signal(false);

const pages = [
  [['new'], 'New endpoint'],
  [['endpoints'], 'Endpoints'],
  [['requests'], 'Requests'],
  [['sql'], 'SQL'],
  [['secrets'], 'Secrets'],
  [['events'], 'Events'],
  [['health'], 'Health'],
] as const;

export function Jump(): JSX.Element {
  return (
    <dialog {...useDialog(jumping)} class="jump" aria-label="Jump to">
      {jumping.value ? <Found /> : null}
    </dialog>
  );
}

interface Link {
  readonly href: string;
  readonly label: string;
}

/** Of how many endpoints what can be done with them is offered, too. */
const doneMax = 2;

/** To the next link, or back to the field. */
function step(event: KeyboardEvent, by: number): void {
  event.preventDefault();
  const all = [...document.querySelectorAll<HTMLElement>('dialog.jump input, dialog.jump a')];
  all[all.findIndex((it) => it === document.activeElement) + by]?.focus();
}

function Found(): JSX.Element {
  const [text, setText] = useState('');
  const wanted = useSettled(text.trim());
  const rows = useRowsIf(wanted === '' ? null : findEndpoints(wanted, 8)).value ?? [];
  const endpoints = rows.map((row) => {
    const [schema, table] = [row['nspname'] ?? '', row['relname'] ?? ''];
    return { schema, table, label: schema === 'public' ? table : `${schema}.${table}` };
  });
  const id = /^[rahs]?(\d+)$/.exec(text.trim());
  const links: readonly Link[] = [
    ...endpoints.map(({ schema, table, label }) => ({ href: to(['endpoint', schema, table]), label })),
    ...(id === null
      ? []
      : [{ href: to(['requests', id[0] === id[1] ? `r${id[1]}` : id[0]]), label: `Request ${id[0]}` }]),
    ...endpoints.slice(0, doneMax).flatMap(({ schema, table, label }) => [
      {
        href: to(['requests'], { result: 'refused', schema, table }),
        label: `Refused requests of ${label}`,
      },
      { href: to(['secrets'], { q: `${schema}.${table}` }), label: `Set the secret of ${label}` },
    ]),
    ...pages
      .filter(([, label]) => label.toLowerCase().includes(text.trim().toLowerCase()))
      .map(([parts, label]) => ({ href: to(parts), label })),
  ];
  const follow = (href: string): void => {
    jumping.value = false;
    location.hash = href;
  };
  return (
    <>
      <input
        type="search"
        aria-label="Jump to"
        placeholder="An endpoint, a request’s number, or a page"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = links;
          if (event.key === 'Enter' && first !== undefined) follow(first.href);
          if (event.key === 'ArrowDown') step(event, 1);
          // It would only empty the field.
          if (event.key === 'Escape') {
            event.preventDefault();
            jumping.value = false;
          }
        }}
      />
      <ul
        class="list"
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') step(event, 1);
          if (event.key === 'ArrowUp') step(event, -1);
        }}
      >
        {links.map(({ href, label }) => (
          <li key={href}>
            <a class="line" href={href} onClick={() => (jumping.value = false)}>
              <Text of={label} max={140} />
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}
