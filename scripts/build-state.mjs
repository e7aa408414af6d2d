// What the last build made of what, kept in dist/.build.json. A stage of the build is done again if the contents of its inputs have changed (contents,
// because `git checkout` and a restored backup set times as they like), or if one of its outputs is not as the build left it.
import { createHash } from 'node:crypto';
import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const stateName = '.build.json';
const lockName = '.build.lock';
const own = '.build.';
const waitMs = 120_000;
const pollMs = 50;

/** The SHA-1 of each file below the folders, by path. */
export function hashes(root, folders) {
  const all = folders.flatMap((folder) => filesBelow(join(root, folder)).map((path) => `${folder}/${path}`));
  return new Map(all.toSorted().map((path) => [path, hashOf(join(root, path))]));
}

/** null if there is no such file. */
export function hashOf(path) {
  const content = unlessMissing(() => readFileSync(path));
  return content === null ? null : createHash('sha1').update(content).digest('hex');
}

/** One hash of many texts. */
export function keyOf(...texts) {
  return createHash('sha1').update(JSON.stringify(texts)).digest('hex');
}

/** dist/ and what is known of it. One build at a time has it. */
export class Output {
  #folder;
  #stages;
  #stamps;

  /** Waits for another build of this checkout; a build that was killed has left its lock behind. */
  static async open(folder) {
    mkdirSync(folder, { recursive: true });
    await lock(join(folder, lockName));
    return new Output(folder);
  }

  constructor(folder) {
    this.#folder = folder;
    this.#stages = parsed(unlessMissing(() => readFileSync(join(folder, stateName), 'utf8'))) ?? {};
    this.look();
  }

  /** Reads anew which files there are. */
  look() {
    this.#stamps = new Map(
      filesBelow(this.#folder).flatMap((path) => {
        const stat = unlessMissing(() => statSync(join(this.#folder, path)));
        return stat === null ? [] : [[path, `${stat.size} ${stat.mtimeMs}`]];
      }),
    );
  }

  /** What a stage remembers beside its outputs. */
  noteOf(stage) {
    return this.#stages[stage]?.note;
  }

  /** Whether all that the stage made is as it was left. */
  isWhole(stage) {
    const outputs = this.#stages[stage]?.outputs;
    return (
      outputs !== undefined &&
      Object.entries(outputs).every(([path, stamp]) => this.#stamps.get(path) === stamp)
    );
  }

  isCurrent(stage, key) {
    return this.#stages[stage]?.key === key && this.isWhole(stage);
  }

  /** `key` is null if there were errors in what the stage read: it is done again, though its outputs are known. */
  finished(stage, { key, made, note }) {
    const outputs = Object.fromEntries(
      made.filter((path) => this.#stamps.has(path)).map((path) => [path, this.#stamps.get(path)]),
    );
    this.#stages[stage] = { key, note, outputs };
  }

  /** The stage made nothing: what it made before is old. */
  failed(stage) {
    const known = this.#stages[stage];
    if (known !== undefined) known.key = null;
  }

  /** After some of the stage's outputs were written again, with what they held before. */
  restamp(stage) {
    const known = this.#stages[stage];
    if (known !== undefined) this.finished(stage, { ...known, made: Object.keys(known.outputs) });
  }

  /** Removes everything; what runs from dist/ at this moment included. */
  empty() {
    for (const name of readdirSync(this.#folder))
      if (name !== lockName) rmSync(join(this.#folder, name), { recursive: true });
    this.#stages = {};
    this.look();
  }

  /** Removes the files that no stage has made: those of sources that are gone. */
  clean() {
    const made = new Set(Object.values(this.#stages).flatMap(({ outputs }) => Object.keys(outputs)));
    for (const path of this.#stamps.keys())
      if (!made.has(path)) {
        rmSync(join(this.#folder, path), { force: true });
        this.#removeEmpty(path);
      }
  }

  #removeEmpty(path) {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf('/')));
    if (folder === '' || readdirSync(join(this.#folder, folder)).length > 0) return;
    rmdirSync(join(this.#folder, folder));
    this.#removeEmpty(folder);
  }

  save() {
    const path = join(this.#folder, stateName);
    writeFileSync(`${path}.new`, JSON.stringify(this.#stages));
    renameSync(`${path}.new`, path);
  }

  /** The lock is that of a child, too, which may outlive this process. */
  share(pid) {
    const path = join(this.#folder, lockName);
    writeFileSync(`${path}.${process.pid}`, `${readFileSync(path, 'utf8')} ${pid}`);
    renameSync(`${path}.${process.pid}`, path);
  }

  close() {
    rmSync(join(this.#folder, lockName), { force: true });
  }
}

async function lock(path) {
  const until = Date.now() + waitMs;
  for (let holder = take(path); holder !== null; holder = take(path)) {
    if (!holder.split(' ').some((pid) => isAlive(Number(pid)))) breakLock(path, holder);
    else if (Date.now() < until) await delay(pollMs);
    else
      throw new Error(
        `process ${holder} has been building for ${waitMs / 1_000} s; if it has not, remove ${path}`,
      );
  }
}

/** The numbers of the processes that have the lock, or null if it is ours now. By a link, so that the file is never seen without its content. */
function take(path) {
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, `${process.pid}`);
  try {
    linkSync(mine, path);
    return null;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return unlessMissing(() => readFileSync(path, 'utf8')) ?? take(path);
  } finally {
    rmSync(mine, { force: true });
  }
}

/** By renaming, so that what is taken away can be looked at: another process may have been quicker, and have the lock now. */
function breakLock(path, holder) {
  const broken = `${path}.${process.pid}`;
  try {
    renameSync(path, broken);
    if (readFileSync(broken, 'utf8') !== holder) linkSync(broken, path);
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'EEXIST') throw error;
  } finally {
    rmSync(broken, { force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (error.code !== 'ESRCH' && error.code !== 'EPERM') throw error;
    return error.code === 'EPERM';
  }
}

function filesBelow(folder) {
  const entries = unlessMissing(() => readdirSync(folder, { recursive: true, withFileTypes: true })) ?? [];
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith(own))
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(folder.length + 1)
        .replaceAll('\\', '/'),
    );
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function unlessMissing(read) {
  try {
    return read();
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return null;
  }
}
