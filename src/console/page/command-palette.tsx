/** Ctrl K: endpoints by a part of their name, which the server looks for, and pages. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { findEndpoints } from '../endpoint-list.ts';
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
  const dialog = useRef<HTMLDialogElement>(null);
  const open = jumping.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} class="jump" onClose={() => (jumping.value = false)} aria-label="Jump to">
      {open ? <Found /> : null}
    </dialog>
  );
}

function Found(): JSX.Element {
  const [text, setText] = useState('');
  const wanted = useSettled(text.trim());
  const rows = useRowsIf(wanted === '' ? null : findEndpoints(wanted, 8)).value ?? [];
  const links = [
    ...rows.map((row) => {
      const [schema, table] = [row['nspname'] ?? '', row['relname'] ?? ''];
      return {
        href: to(['endpoint', schema, table]),
        label: schema === 'public' ? table : `${schema}.${table}`,
      };
    }),
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
        placeholder="An endpoint or a page"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = links;
          if (event.key === 'Enter' && first !== undefined) follow(first.href);
        }}
      />
      <ul class="list">
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
