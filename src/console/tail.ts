/**
 * What one watcher receives. Takes batches of all processes, writes events to a stream: only lines of tables that its role
 * owns, at most `tailLinesMax` per `tailFlushMs`; the others are counted. The engine is asked as that role which tables
 * those are, from time to time, and again when a line of an unknown table arrives. While it does not answer, the last known rights hold for
 * `tailLastRightsMs`, so that the answers that senders get meanwhile are seen; before the first answer lines wait. Refuses nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { limits } from '../config/limits.ts';
import type { TailBatch, TailLine, TailSource } from '../observe/tail.ts';
import type { TailEvent } from './api.ts';
import { isRefused } from './outcome-summary.ts';

/** What a watcher may see. `all`: everything, including requests that led to no table. */
export type TailRights =
  | 'all'
  | {
      readonly database: string;
      /** Their oids, by `tableKey`. */
      readonly tables: ReadonlyMap<string, number>;
      /** Of a superuser: every table of the database, and requests that led to no table. */
      readonly strays: boolean;
      /** The other databases: what came to an address of theirs is shown there. */
      readonly others?: ReadonlySet<string>;
    };

export interface TailWatcher {
  /** Reads the rights again; null: they cannot be read at present. Rejects if the role has none any more. */
  rights(): Promise<TailRights | null>;
  /** Returns whether the event was written; false: the reader does not keep up. */
  write(event: TailEvent): boolean;
  /** A monotonic clock, ms. */
  clock(): number;
}

export const tableKey = (schema: string, table: string): string => JSON.stringify([schema, table]);

/** Watches until the returned function is called. */
export function watchTail(source: TailSource, watcher: TailWatcher): () => void {
  const watching = new Watching(watcher);
  const end = source.watch((batch) => watching.add(batch));
  return () => {
    end();
    watching.end();
  };
}

class Watching {
  readonly #watcher: TailWatcher;
  #rights: TailRights | null = null;
  /** When they were asked for, and when the engine answered, the last time. */
  #askedMs = -Infinity;
  #knownMs = -Infinity;
  #asking: Promise<void> | null = null;
  #waiting: TailLine[] = [];
  /** Lines that were dropped before their owner was determined. */
  #skipped = 0;
  #first = true;
  #timer: NodeJS.Timeout | null = null;
  #ended = false;

  constructor(watcher: TailWatcher) {
    this.#watcher = watcher;
  }

  add({ lines, skipped }: TailBatch): void {
    if (this.#ended) return;
    const room = limits.tailRingMax - this.#waiting.length;
    this.#waiting.push(...lines.slice(0, room));
    this.#skipped += skipped + Math.max(0, lines.length - room);
    this.#timer ??= setTimeout(() => void this.#tell(), this.#first ? 0 : limits.tailFlushMs);
  }

  end(): void {
    this.#ended = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  async #tell(): Promise<void> {
    await this.#refresh();
    if (this.#ended) return;
    if (this.#rights === null) {
      this.#timer = setTimeout(() => void this.#tell(), limits.tailUnknownMs);
      return;
    }
    this.#write(this.#rights);
    // Lines that arrived meanwhile, and the count that could not be written: after a pause.
    const more = this.#waiting.length + this.#skipped > 0;
    this.#timer = more ? setTimeout(() => void this.#tell(), limits.tailFlushMs) : null;
  }

  #write(rights: TailRights): void {
    const [lines, unseen] = [this.#waiting, this.#skipped];
    [this.#waiting, this.#skipped] = [[], 0];
    // Lines of several processes arrive separately.
    const seen = lines.filter((line) => maySee(rights, line)).toSorted(byTime);
    const told = sampled(seen, this.#first ? limits.tailRecentMax : limits.tailLinesMax, this.#first);
    // A watcher that sees only some tables does not learn how much traffic the others have; and on the first event, older
    // lines do not count as missed.
    const skipped = this.#first ? 0 : seen.length - told.length + (seesAll(rights) ? unseen : 0);
    this.#first = false;
    const silent = told.length + skipped === 0;
    const event = { lines: told.map(withoutOid), skipped };
    if (!silent && !this.#watcher.write(event)) this.#skipped += told.length + skipped;
  }

  /** Waits for a frozen engine no longer than `tailUnknownMs`: its answer counts when it arrives. */
  async #refresh(): Promise<void> {
    const now = this.#watcher.clock();
    const rights = this.#rights;
    const isStrange = (line: TailLine): boolean => line.table !== '' && !maySee(rights ?? 'all', line);
    const soon = rights === null || (rights !== 'all' && this.#waiting.some(isStrange));
    if (now - this.#askedMs >= (soon ? limits.tailUnknownMs : limits.tailRightsMs)) {
      this.#askedMs = now;
      this.#asking ??= this.#ask();
    }
    if (this.#asking === null) return;
    const late = new AbortController();
    const pause = delay(limits.tailUnknownMs, undefined, { signal: late.signal }).catch(() => undefined);
    await Promise.race([this.#asking, pause]);
    late.abort();
  }

  async #ask(): Promise<void> {
    try {
      const rights = await this.#watcher.rights();
      const now = this.#watcher.clock();
      if (rights !== null) [this.#rights, this.#knownMs] = [rights, now];
      else if (now - this.#knownMs >= limits.tailLastRightsMs) this.#rights = null;
    } catch {
      this.#rights = null;
    } finally {
      this.#asking = null;
    }
  }
}

function seesAll(rights: TailRights | null): boolean {
  return rights === 'all' || rights?.strays === true;
}

const byTime = (a: TailLine, b: TailLine): number => a.atMs - b.atMs;

export function maySee(rights: TailRights, { database, schema, table, oid, path = '' }: TailLine): boolean {
  if (rights === 'all') return true;
  if (table === '') return rights.strays && rights.others?.has(databaseOf(path)) !== true;
  const own = rights.tables.get(tableKey(schema, table));
  if (rights.strays) return database === rights.database;
  // What came for an earlier table of that name is its owner's.
  return database === rights.database && own !== undefined && (oid ?? own) === own;
}

/** The first part of an endpoint's address, which begins with `/webhook/` or `/ingest/`. */
function databaseOf(path: string): string {
  const [, part = ''] = /^\/(?:webhook|ingest)\/([^/]*)/.exec(path) ?? [];
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function withoutOid(line: TailLine): TailLine {
  const { oid: _, ...shown } = line;
  return shown;
}

/** Refused requests before accepted ones, each in order of arrival; on the first event, the last lines. */
function sampled(lines: readonly TailLine[], max: number, last: boolean): readonly TailLine[] {
  if (lines.length <= max) return lines;
  if (last) return lines.slice(-max);
  const refused = lines.filter(isRefused).slice(0, max);
  const chosen = new Set([
    ...refused,
    ...lines.filter((line) => !isRefused(line)).slice(0, max - refused.length),
  ]);
  return lines.filter((line) => chosen.has(line));
}
