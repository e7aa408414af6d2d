/** Asks again until the answer is right, for what the contract allows some time: `CREATE` is at once, a change within a second. */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Rejects as the last `check` did when none has passed within `ms`, and at once where it failed of what is not `expected`. Asks a hundred times
 * a second at most, and less often later.
 */
export async function within<T>(
  ms: number,
  check: () => Promise<T>,
  expected: (error: unknown) => boolean = () => true,
): Promise<T> {
  const deadline = performance.now() + ms;
  for (let pauseMs = 10; ; pauseMs = Math.min(50, pauseMs * 1.2)) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline || !expected(error)) throw error;
      await delay(pauseMs);
    }
  }
}
