/** Closes what a test opened, last opened first; `t.after` alone would run in the order of registration. */
import type { TestContext } from 'node:test';
import { Closer } from '../../src/kit/closer.ts';

const closers = new WeakMap<TestContext, Closer>();

export function onEnd(t: TestContext, name: string, close: () => Promise<void> | void): void {
  let closer = closers.get(t);
  if (closer === undefined) {
    const made = new Closer();
    closers.set(t, made);
    t.after(() => made.close());
    closer = made;
  }
  closer.add(name, close);
}
