/** The URL that a sender calls, names that are cut in the middle, and fields with a Copy button. */
import type { JSX } from 'preact';
import { Copy } from './components.tsx';
import { Text } from './text.tsx';
import { me } from './server.ts';

export function urlOf(schema: string, table: string): string {
  const { base = null, database = '' } = me.value ?? {};
  const path = [database, schema, table].map(encodeURIComponent).join('/');
  return `${base ?? 'http://…'}/webhook/${path}`;
}

/** A text to be copied as a whole; if it is too long for its place, its beginning is left out. */
export function CopyField({
  label,
  text,
  copy = 'Copy',
}: {
  readonly label: string;
  readonly text: string;
  readonly copy?: string;
}): JSX.Element {
  return (
    <div class="copy-field" role="group" aria-label={label}>
      <code title={text}>
        <bdi dir="ltr">
          <Text of={text} max={2_000} />
        </bdi>
      </code>
      <Copy text={text} label={copy} kind="primary" />
    </div>
  );
}

/** A name whose middle is left out if it is long: both ends tell names apart. The whole is in its title. */
export function Name({ of, max = 32 }: { readonly of: string; readonly max?: number }): JSX.Element {
  // A link of blanks alone could not be seen.
  if (of.trim() === '') return <Text of={JSON.stringify(of)} />;
  const chars = Array.from(of);
  if (chars.length <= max) return <Text of={of} max={200} />;
  const half = Math.floor((max - 1) / 2);
  return (
    <span title={of}>
      <Text of={chars.slice(0, half).join('')} />…<Text of={chars.slice(-half).join('')} />
    </span>
  );
}

/** Why a sender may not reach it. */
export function Reachable(): JSX.Element | null {
  if (me.value === null || me.value.public) return null;
  return (
    <p class="strip">
      This address is known on this machine only. Most senders call only https on port 443: open a tunnel or a
      proxy to it, and set HEADGATE_PUBLIC_URL to the address that they call.
    </p>
  );
}
