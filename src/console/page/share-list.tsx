/** What “Share” says of requests: of a list with filters, or of one endpoint. */
import type { JSX } from 'preact';
import { filterOf, wordsOf } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { shellWord } from '../quote.ts';
import { listKept } from '../request-statements.ts';
import { useSenders } from './senders.ts';
import { Share } from './share.tsx';

interface Props {
  readonly address: ListAddress;
  /** Whether a list of them is what is seen. */
  readonly isShown?: boolean;
}

export const ShareList = ({ address, isShown = true }: Props): JSX.Element => (
  <Share
    what={wordsOf(address, useSenders().nameOf) || 'All requests'}
    sql={isShown ? sqlOf(address) : null}
    command={commandOf(address)}
  />
);

function commandOf({ schema, table, result }: ListAddress): string {
  const name = table === '' ? '' : ` ${shellWord(schema === '' ? table : `${schema}.${table}`)}`;
  return `headgate tail${name}${result === 'refused' ? ' --failed' : ''}`;
}

export const sqlOf = (address: ListAddress): string | null =>
  listKept(filterOf(address, Date.now()), { from: null, max: 100, scanned: 1_000 });
