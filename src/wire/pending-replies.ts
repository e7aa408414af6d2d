/**
 * What one client has sent and the engine has not answered, in order. Messages about statements that Headgate did not
 * touch are shared constants, so that a pipelining client costs one array slot per message.
 */
import type { RewrittenText } from './errors.ts';

export type PendingReply =
  | { readonly kind: 'query'; readonly ours: RewrittenText | null }
  /** Names are null if nothing depends on them: no statement of Headgate's is prepared or in flight. */
  | { readonly kind: 'parse'; readonly name: string | null; readonly ours: RewrittenText | null }
  | { readonly kind: 'bind'; readonly portal: string | null; readonly statement: string | null }
  | { readonly kind: 'describe'; readonly of: 'S' | 'P'; readonly name: string | null }
  | { readonly kind: 'execute'; readonly portal: string | null }
  | { readonly kind: 'close'; readonly of: 'S' | 'P'; readonly name: string | null }
  | { readonly kind: 'sync' }
  | { readonly kind: 'call' }
  /** CopyDone or CopyFail: it has no answer of its own. */
  | { readonly kind: 'copyEnd' };

export const plain = {
  query: { kind: 'query', ours: null },
  parse: { kind: 'parse', name: null, ours: null },
  bind: { kind: 'bind', portal: null, statement: null },
  describe: { kind: 'describe', of: 'S', name: null },
  execute: { kind: 'execute', portal: null },
  close: { kind: 'close', of: 'S', name: null },
  sync: { kind: 'sync' },
  call: { kind: 'call' },
  copyEnd: { kind: 'copyEnd' },
} as const satisfies Record<string, PendingReply>;

const isOurs = (entry: PendingReply): boolean =>
  (entry.kind === 'query' || entry.kind === 'parse') && entry.ours !== null;

export class Outstanding {
  #entries: PendingReply[] = [];
  #first = 0;
  #ours = 0;

  get length(): number {
    return this.#entries.length - this.#first;
  }

  /** How many of them are about statements of Headgate's. */
  get ours(): number {
    return this.#ours;
  }

  push(entry: PendingReply): void {
    if (entry.kind === 'copyEnd') {
      // The engine ignores stray ones; several in a row mean the same as one.
      if (this.length === 0 || this.#entries.at(-1)?.kind === 'copyEnd') return;
    }
    if (isOurs(entry)) this.#ours += 1;
    this.#entries.push(entry);
  }

  /** What the engine is answering now. The ends of copies that never began have no answer and are dropped. */
  head(): PendingReply | undefined {
    let entry = this.#entries[this.#first];
    while (entry?.kind === 'copyEnd') {
      this.pop();
      entry = this.#entries[this.#first];
    }
    return entry;
  }

  pop(): void {
    const entry = this.#entries[this.#first];
    if (entry === undefined) return;
    if (isOurs(entry)) this.#ours -= 1;
    this.#first += 1;
    if (this.#first === this.#entries.length) {
      this.#entries = [];
      this.#first = 0;
    } else if (this.#first >= 1024 && this.#first * 2 > this.#entries.length) {
      this.#entries.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /** After an error the engine ignores everything up to a Sync. False: that Sync has not been sent yet. */
  dropToSync(): boolean {
    for (let entry = this.#entries[this.#first]; entry !== undefined; entry = this.#entries[this.#first]) {
      if (entry.kind === 'sync') return true;
      this.pop();
    }
    return false;
  }

  /**
   * The head has begun to copy in, and the engine ignores every Sync up to the copy's end (libpq sends one directly
   * after Execute). False: that end has not been sent yet.
   */
  dropSyncsOfCopy(): boolean {
    const from = this.#first + 1;
    let at = from;
    while (this.#entries[at]?.kind === 'sync') at += 1;
    const ended = this.#entries[at]?.kind === 'copyEnd';
    this.#entries.splice(from, at - from + (ended ? 1 : 0));
    return ended;
  }
}
