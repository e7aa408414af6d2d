/** Closes what a test opened, in reverse order; `t.after` alone would run in the order of registration. */
import { execFile } from 'node:child_process';
import { after } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Closer } from '../../src/kit/closer.ts';

/** What ends: a test, or all tests of a file. */
export type Scope = Pick<TestContext, 'after'>;

const closers = new WeakMap<Scope, Closer>();

/** For resources shared by the tests of a file. Call it at the top level: a hook inside a test belongs to that test. */
export function wholeFile(): Scope {
  const scope: Scope = { after: () => undefined };
  const closer = new Closer();
  closers.set(scope, closer);
  after(() => closer.close());
  return scope;
}

export function onEnd(t: Scope, name: string, close: () => Promise<void> | void): void {
  let closer = closers.get(t);
  if (closer === undefined) {
    const made = new Closer();
    closers.set(t, made);
    t.after(() => made.close());
    closer = made;
  }
  closer.add(name, close);
}

/**
 * Removes a folder with its contents, with an external program: Node would delete the thousand files of a cluster one call at a time. Retries,
 * because ending processes may still write.
 */
export async function removeFolder(folder: string): Promise<void> {
  for (let left = 20; ; left--)
    try {
      await promisify(execFile)('rm', ['-rf', folder]);
      return;
    } catch (error) {
      if (left === 0) throw error;
      await delay(50);
    }
}
