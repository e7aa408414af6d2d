/** How the streams of several processes keep their order: what ingest-stream.ts needs, and what another process asks of a stream. Refuses with `malformed_path`. */
import type { Target } from '../types/target.ts';
import { Refused } from '../errors/refusals.ts';

/** Orders what a connection left behind in one process before what its client sends again to another process. */
export interface StreamFence {
  /**
   * Resolves when the other processes have settled everything that they held for this table; if the client has named
   * itself, only what they held from its streams. Throws `deadline`.
   */
  pass(table: Target, client: string | null): Promise<void>;
  /** The streams of this process, for when another process asks. */
  readonly streams: Set<FencedStream>;
}

export interface FencedStream {
  readonly target: Target;
  /** The name that its client has given; null: none. */
  readonly client: string | null;
  /** How many of its batches were decided. */
  readonly decided: number;
  /** Resolves when every batch that it has now is committed, or the stream has ended, and what is left is with the lane. */
  settled(): Promise<void>;
}

/** The name that a client gives, `?client=…`; null: none. */
export function clientOf(target: string): string | null {
  const at = target.indexOf('?');
  const client = at === -1 ? null : new URLSearchParams(target.slice(at + 1)).get('client');
  if (client !== null && (client === '' || client.length > clientCharsMax))
    throw new Refused('malformed_path', `client must have 1 to ${clientCharsMax} characters`);
  return client;
}

const clientCharsMax = 128;
