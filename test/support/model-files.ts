/**
 * A file system that is only as durable as what was synced, for the spool's tests. Nothing of it touches a disk.
 *
 * `crash` returns file systems that a machine may come back with: each sector that was written and not synced exists or
 * not, and so does each name. `failAt` makes one call fail, only that one or, as if the process was killed, all from
 * there on.
 */
import type { SpoolFile, SpoolFiles } from '../../src/spool/files.ts';

const sectorBytes = 512;

interface Content {
  /** What a reader sees now. */
  bytes: Buffer;
  /** What certainly survives a crash. */
  durable: Buffer;
  /** Sectors that differ. */
  readonly dirty: Set<number>;
  syncs: number;
  /** A sync has failed: the result of another one would mean nothing. */
  failed: boolean;
}

export class ModelFiles implements SpoolFiles {
  /** The number of calls so far that change or sync something. */
  calls = 0;
  /** Which of them fails. */
  failAt = Infinity;
  /** Whether all later ones fail, too. */
  stays = true;
  /** Whether there is room for a new file. */
  creatable = true;
  /** Files that were opened and not closed. */
  openFiles = 0;
  /** Syncs of a file that were requested after one of its syncs had failed. */
  syncsAfterFailure = 0;
  #names: Map<string, Content>;
  /** Names that certainly survive a crash. */
  #durable: Map<string, Content>;

  constructor(names: ReadonlyMap<string, Content> = new Map()) {
    this.#names = new Map(names);
    this.#durable = new Map(names);
  }

  get bytes(): number {
    return [...this.#names.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  get contents(): ReadonlyMap<string, Buffer> {
    return new Map([...this.#names].map(([name, { bytes }]) => [name, bytes]));
  }

  /** Changes a file from outside, durably; null: removes it. */
  put(path: string, bytes: Buffer | null): void {
    for (const names of [this.#names, this.#durable]) {
      if (bytes === null) names.delete(path);
      else names.set(path, contentOf(Buffer.from(bytes)));
    }
  }

  /** The same, of a file that is open. */
  overwrite(path: string, bytes: Buffer): void {
    const content = this.#names.get(path);
    if (content !== undefined) [content.bytes, content.durable] = [Buffer.from(bytes), Buffer.from(bytes)];
  }

  copy(): ModelFiles {
    return new ModelFiles(
      new Map([...this.#names].map(([name, { bytes }]) => [name, contentOf(Buffer.from(bytes))])),
    );
  }

  /** What may exist after a crash. `keeps`: whether an unsynced change survives. */
  crash(keeps: () => boolean): ModelFiles {
    const names = new Map<string, Content>();
    for (const name of new Set([...this.#names.keys(), ...this.#durable.keys()])) {
      const now = this.#names.get(name);
      const before = this.#durable.get(name);
      const content = now === before || keeps() ? now : before;
      if (content === undefined) continue;
      const left = Buffer.alloc(
        keeps() ? content.bytes.length : Math.min(content.durable.length, content.bytes.length),
      );
      content.durable.copy(left);
      for (const sector of content.dirty) {
        const from = sector * sectorBytes;
        if (keeps()) content.bytes.copy(left, from, from, from + sectorBytes);
      }
      names.set(name, contentOf(left));
    }
    return new ModelFiles(names);
  }

  list(folder: string): Promise<readonly string[]> {
    const inside = [...this.#names.keys()].filter((name) => name.startsWith(`${folder}/`));
    return Promise.resolve([
      ...new Set(inside.map((name) => name.slice(folder.length + 1).split('/')[0] ?? '')),
    ]);
  }

  makeFolder(): Promise<void> {
    return Promise.resolve();
  }

  async create(path: string): Promise<SpoolFile> {
    await this.#call();
    if (!this.creatable) throw Object.assign(new Error(`ENOSPC: ${path}`), { code: 'ENOSPC' });
    if (this.#names.has(path)) throw new Error(`EEXIST: ${path}`);
    const content = contentOf(Buffer.alloc(0));
    this.#names.set(path, content);
    return this.#file(content);
  }

  open(path: string): Promise<SpoolFile> {
    const content = this.#names.get(path);
    return content === undefined
      ? Promise.reject(new Error(`ENOENT: ${path}`))
      : Promise.resolve(this.#file(content));
  }

  async remove(path: string): Promise<void> {
    await this.#call();
    if (!this.#names.delete(path)) throw new Error(`ENOENT: ${path}`);
  }

  removeFolder(): Promise<void> {
    return Promise.resolve();
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#call();
    const content = this.#names.get(from);
    if (content === undefined) throw new Error(`ENOENT: ${from}`);
    this.#names.delete(from);
    this.#names.set(to, content);
  }

  async syncFolder(folder: string): Promise<void> {
    await this.#call();
    const isInside = (name: string) =>
      name.startsWith(`${folder}/`) && !name.slice(folder.length + 1).includes('/');
    for (const name of this.#durable.keys()) if (isInside(name)) this.#durable.delete(name);
    for (const [name, content] of this.#names) if (isInside(name)) this.#durable.set(name, content);
  }

  #file(content: Content): SpoolFile {
    let isOpen = true;
    this.openFiles += 1;
    const sync = async () => {
      if (content.failed) this.syncsAfterFailure += 1;
      try {
        await this.#call();
      } catch (error) {
        content.failed = true;
        throw error;
      }
      content.durable = Buffer.from(content.bytes);
      content.dirty.clear();
    };
    return {
      size: () => Promise.resolve(content.bytes.length),
      read: (bytes, position) =>
        Promise.resolve(position < content.bytes.length ? content.bytes.copy(bytes, 0, position) : 0),
      write: async (pieces, position) => {
        const all = Buffer.concat(pieces);
        const put = (length: number) => {
          if (position + length > content.bytes.length) {
            const grown = Buffer.alloc(position + length);
            content.bytes.copy(grown);
            content.bytes = grown;
          }
          all.copy(content.bytes, position, 0, length);
          const last = Math.ceil((position + length) / sectorBytes);
          for (let sector = Math.floor(position / sectorBytes); sector < last; sector++)
            content.dirty.add(sector);
        };
        // A write that fails has written a part.
        try {
          await this.#call();
        } catch (error) {
          put(all.length >> 1);
          throw error;
        }
        put(all.length);
      },
      sync,
      syncData: sync,
      close: () => {
        if (isOpen) this.openFiles -= 1;
        isOpen = false;
        return Promise.resolve();
      },
    };
  }

  #call(): Promise<void> {
    this.calls += 1;
    const fails = this.stays ? this.calls >= this.failAt : this.calls === this.failAt;
    return fails ? Promise.reject(new Error('EIO')) : Promise.resolve();
  }
}

function contentOf(bytes: Buffer): Content {
  return { bytes, durable: Buffer.from(bytes), dirty: new Set(), syncs: 0, failed: false };
}
