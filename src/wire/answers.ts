/**
 * What the engine's answers refer to: the messages of one client that the engine has not answered, in order, and its prepared statements and
 * portals; determines for each answer whether it belongs to a statement of Headgate's. Handles no bytes. Messages about statements that
 * Headgate did not touch are shared constants, so that a pipelining client costs one array slot per message.
 *
 * Names are bound when the engine confirms them, not when the client sends them: a Parse that failed leaves the old
 * statement in place, as it does in the engine.
 */
import type { RewrittenText } from './errors.ts';

type PendingReply =
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

class Outstanding {
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

export class ReplyRewriter {
  readonly outstanding = new Outstanding();
  readonly #statementsMax: number;
  readonly #statements = new Map<string, RewrittenText>();
  readonly #portals = new Map<string, RewrittenText>();
  /** For the Query at the head: the CommandCompletes so far, and whether anything was answered at all. */
  #completed = 0;
  #answered = false;
  /** The engine reads CopyData and ignores Sync. */
  #copyingIn = false;
  /** After an error the engine ignores messages until a Sync, which the client has not sent yet. */
  #skipping = false;
  /** The last ReadyForQuery said that no transaction is open. */
  #outsideTransaction = false;
  /** Something has been sent since the last Sync or Query. */
  #unsynced = false;

  constructor(statementsMax: number) {
    this.#statementsMax = statementsMax;
  }

  /** False as long as no name can belong to a statement of Headgate's: names then need not be read. */
  get namesMatter(): boolean {
    return this.#statements.size + this.#portals.size + this.outstanding.ours > 0;
  }

  /** The engine now ignores everything that the client sends except Sync. */
  get skipping(): boolean {
    return this.#skipping;
  }

  get idle(): boolean {
    return this.outstanding.length === 0 && this.#outsideTransaction && !this.#copyingIn && !this.#skipping;
  }

  /** Everything that was sent has been answered up to a ReadyForQuery. */
  get quiet(): boolean {
    return this.outstanding.length === 0 && !this.#copyingIn && !this.#skipping && !this.#unsynced;
  }

  get outsideTransaction(): boolean {
    return this.#outsideTransaction;
  }

  sent(entry: PendingReply): void {
    this.#unsynced = entry.kind !== 'sync' && entry.kind !== 'query' && entry.kind !== 'call';
    if (entry.kind === 'sync') {
      if (this.#copyingIn) return;
      this.#skipping = false;
    } else if (this.#skipping) {
      return;
    } else if (entry.kind === 'copyEnd' && this.#copyingIn) {
      this.#copyingIn = false;
      return;
    }
    this.outstanding.push(entry);
  }

  /** The statement of Headgate's that the engine is processing, if it is one. */
  current(): RewrittenText | null {
    const head = this.outstanding.head();
    switch (head?.kind) {
      case 'query':
      case 'parse':
        return head.ours;
      case 'bind':
        return this.#named('S', head.statement);
      case 'describe':
        return this.#named(head.of, head.name);
      case 'execute':
        return this.#named('P', head.portal);
      default:
        return null;
    }
  }

  parseComplete(): void {
    const head = this.outstanding.head();
    if (head?.kind !== 'parse') return;
    if (head.name !== null) this.#bind(this.#statements, head.name, head.ours);
    this.outstanding.pop();
  }

  bindComplete(): void {
    const head = this.outstanding.head();
    if (head?.kind !== 'bind') return;
    if (head.portal !== null) this.#bind(this.#portals, head.portal, this.#named('S', head.statement));
    this.outstanding.pop();
  }

  closeComplete(): void {
    const head = this.outstanding.head();
    if (head?.kind !== 'close') return;
    if (head.name !== null) (head.of === 'S' ? this.#statements : this.#portals).delete(head.name);
    this.outstanding.pop();
  }

  /** RowDescription or NoData: the end of a Describe's answer, or the beginning of a Query's. */
  described(): void {
    if (this.outstanding.head()?.kind === 'describe') this.outstanding.pop();
    else this.#answered = true;
  }

  copyBegins(): void {
    this.#answered = true;
  }

  copyInBegins(): void {
    this.#answered = true;
    if (this.outstanding.head() !== undefined) this.#copyingIn = !this.outstanding.dropSyncsOfCopy();
  }

  /** The tag to put into this CommandComplete; null: the engine's own. */
  commandCompletes(): string | null {
    const head = this.outstanding.head();
    const rewrite = this.current()?.rewrite;
    this.#copyingIn = false;
    let at = 0;
    if (head?.kind === 'query') {
      this.#answered = true;
      at = this.#completed;
      this.#completed += 1;
    } else if (head?.kind === 'execute') {
      this.outstanding.pop();
    }
    return rewrite?.kind === 'rewritten' ? (rewrite.tags[at] ?? null) : null;
  }

  /** EmptyQueryResponse or PortalSuspended. */
  executeEnds(): void {
    if (this.outstanding.head()?.kind === 'execute') this.outstanding.pop();
    else this.#answered = true;
  }

  /** An ErrorResponse that leaves the connection open. */
  failed(): void {
    this.#copyingIn = false;
    const head = this.outstanding.head();
    if (head === undefined) return;
    if (head.kind === 'query' || head.kind === 'call' || head.kind === 'sync') this.#answered = true;
    else this.#skipping = !this.outstanding.dropToSync();
  }

  readyForQuery(outsideTransaction: boolean): void {
    const head = this.outstanding.head();
    this.#copyingIn = false;
    // It has read a Sync, perhaps one that `dropSyncsOfCopy` assumed to be ignored.
    this.#skipping = false;
    this.#outsideTransaction = outsideTransaction;
    if (outsideTransaction) this.#portals.clear();
    // A Query that has not been answered at all is not what became ready: the engine may answer a Sync that
    // `dropSyncsOfCopy` assumed to be ignored, if a copy fails before it reads.
    const ends = head?.kind === 'sync' || head?.kind === 'call' || (head?.kind === 'query' && this.#answered);
    if (!ends) return;
    this.#answered = false;
    this.#completed = 0;
    this.outstanding.pop();
  }

  /** The engine has dropped all prepared statements (DISCARD ALL, DEALLOCATE ALL). */
  statementsDropped(): void {
    this.#statements.clear();
  }

  #named(of: 'S' | 'P', name: string | null): RewrittenText | null {
    if (name === null) return null;
    return (of === 'S' ? this.#statements : this.#portals).get(name) ?? null;
  }

  #bind(names: Map<string, RewrittenText>, name: string, ours: RewrittenText | null): void {
    names.delete(name);
    if (ours === null) return;
    // DEALLOCATE of a single statement is not noticed; the oldest name is dropped, and only loses its tag.
    const oldest = names.keys().next();
    if (names.size >= this.#statementsMax && oldest.done !== true) names.delete(oldest.value);
    names.set(name, ours);
  }
}
