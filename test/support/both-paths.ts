/** Tests that run twice: with the recogniser wherever it applies, and with Node's parser only. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { test as once } from 'node:test';
import type { TestContext } from 'node:test';

export type { TestContext };

const current = new AsyncLocalStorage<boolean>();

/** The default for listeners and gateways of tests. */
export function isFastPath(): boolean {
  return current.getStore() ?? true;
}

/** Replaces `test` of node:test. */
export function test(name: string, run: (t: TestContext) => Promise<void> | void): void {
  for (const [isFast, by] of [
    [true, ''],
    [false, " (Node's parser alone)"],
  ] as const)
    void once(`${name}${by}`, (t) => current.run(isFast, async () => run(t)));
}
