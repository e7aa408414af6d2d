/** Tests that are run twice: with requests read by the recogniser where they can be, and with Node's parser alone. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { test as once } from 'node:test';
import type { TestContext } from 'node:test';

export type { TestContext };

const current = new AsyncLocalStorage<boolean>();

/** What listeners and gateways of tests do where nothing else is said. */
export function isFastPath(): boolean {
  return current.getStore() ?? true;
}

/** In place of `test` of node:test. */
export function test(name: string, run: (t: TestContext) => Promise<void> | void): void {
  for (const [isFast, by] of [
    [true, ''],
    [false, " (Node's parser alone)"],
  ] as const)
    void once(`${name}${by}`, (t) => current.run(isFast, async () => run(t)));
}
