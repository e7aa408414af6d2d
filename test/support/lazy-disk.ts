/**
 * A folder on LazyFS, a file system in user space that keeps unsynced data in memory and discards it on command, as a disk does when its
 * power fails. `HEADGATE_LAZYFS` is the path of the program; docs/reliability.md describes how to build it.
 */
import { equal, fail } from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { temporaryFolder } from './headgate.ts';
import { run } from './run.ts';
import { within } from './within.ts';

export class LazyDisk {
  readonly folder: string;
  readonly #faults: string;
  readonly #done: FileHandle;

  private constructor(folder: string, faults: string, done: FileHandle) {
    this.folder = folder;
    this.#faults = faults;
    this.#done = done;
  }

  /** Unmounted with the test. */
  static async mount(t: TestContext, program: string): Promise<LazyDisk> {
    const place = await temporaryFolder(t);
    const of = (name: string) => join(place, name);
    mkdirSync(of('disk'));
    mkdirSync(of('under'));
    writeFileSync(
      of('config.toml'),
      `[faults]
fifo_path="${of('faults')}"
fifo_path_completed="${of('done')}"
[cache]
apply_eviction=false
[cache.simple]
custom_size="256mb"
blocks_per_page=1
[filesystem]
log_all_operations=false
logfile="${of('log')}"
`,
    );
    const mounting = ['-o', 'allow_other', '-o', 'modules=subdir', '-o', `subdir=${of('under')}`, '-f'];
    const child = spawn(program, [of('disk'), '--config-path', of('config.toml'), ...mounting], {
      stdio: 'ignore',
    });
    const ended = once(child, 'exit');
    onEnd(t, 'LazyFS', async () => {
      await run('fusermount3', ['-u', '-z', of('disk')]);
      child.kill();
      await ended;
    });
    await within(20_000, async () => {
      if (!readFileSync('/proc/self/mounts', 'utf8').includes(` ${of('disk')} `)) fail('it is not mounted');
    });
    // Also opened for writing, so that neither side waits for the other to open it, and reading never reaches an end.
    const done = await open(of('done'), 'r+');
    onEnd(t, 'LazyFS: done', () => done.close());
    const disk = new LazyDisk(of('disk'), of('faults'), done);
    // Every test on this disk depends on its discarding unsynced data.
    const probe = join(disk.folder, 'probe');
    writeFileSync(probe, 'unsynced');
    await disk.failPower();
    equal(readFileSync(probe, 'utf8'), '');
    return disk;
  }

  /** Once this resolves, unsynced data is gone. */
  async failPower(): Promise<void> {
    writeFileSync(this.#faults, 'lazyfs::clear-cache\n');
    const { bytesRead, buffer } = await this.#done.read(Buffer.alloc(256));
    const said = buffer.toString('utf8', 0, bytesRead);
    if (!said.includes('finished::clear-cache')) fail(said);
  }
}
