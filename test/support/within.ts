/**
 * Repeats a check until it passes, for effects to which the contract allows some time: `CREATE` is immediate, a change takes up to a second.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Rejects as the last `check` did if none has passed within `ms`, and at once if the error is not `expected`. Checks a hundred times per second
 * at most, and less often later.
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
