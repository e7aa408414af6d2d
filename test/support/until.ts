/**
 * Polls until the condition holds, at first every few ms: a loop without a pause would take a core from what it waits for. `ms`: how long it may take;
 * the error then names the condition.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

export async function until(isSo: () => boolean | Promise<boolean>, ms = 120_000): Promise<void> {
  const deadline = performance.now() + ms;
  for (let pauseMs = 3; !(await isSo()); pauseMs = Math.min(50, pauseMs * 1.2)) {
    if (performance.now() > deadline) throw new Error(`not within ${ms / 1_000} s: ${String(isSo)}`);
    await delay(pauseMs);
  }
}
