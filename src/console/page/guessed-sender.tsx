/** Guesses the sender of a request by its header names, if the table has another check, or none. */
import type { JSX } from 'preact';
import type { SenderInfo } from '../api.ts';
import { qualified } from '../quote.ts';
import { recognised } from '../guess-sender.ts';
import type { TableRef } from '../statements.ts';
import { readFacts } from '../endpoint-list.ts';
import { useSenderOf } from './endpoint-facts.tsx';
import { useLoaded, useRows } from './load.ts';
import { Code } from './components.tsx';
import { Text } from './text.tsx';
import { to } from './route.ts';
import { call } from './server.ts';

interface Props {
  readonly table: TableRef;
  readonly headers: readonly string[];
}

export function LooksLike({ table, headers }: Props): JSX.Element | null {
  const senders = useLoaded('senders', (options) => call<readonly SenderInfo[]>('senders', options)).value;
  const sender = useSenderOf(useRows(readFacts(table)).value?.[0]);
  if (senders === null || sender === undefined) return null;
  const own = sender?.id ?? null;
  const like = recognised(headers, senders);
  const [first] = like;
  if (first === undefined || like.some(({ id }) => id === own)) return null;
  return (
    <section class="strip">
      It looks like{' '}
      {like.map(({ id, name }, i) => (
        <>
          {i === 0 ? '' : ' or '}
          <a key={id} href={to(['new', id])}>
            <Text of={name} />
          </a>
        </>
      ))}
      {own === null ? '.' : <>, but the table checks for {own}.</>} Create an endpoint for it, or give this
      table that check:
      <Code
        text={`ALTER TABLE ${qualified(table.schema, table.table)} VALIDATE SECRET ${first.id}_secret USING ${first.id}`}
      />
    </section>
  );
}
