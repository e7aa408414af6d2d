/**
 * Polls until the condition holds, at first every few ms: a loop without a pause would take a core from what it waits
 * for.
 */
import { setTimeout as delay } from 'node:timers/promises';

export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let ms = 3; !(await isSo()); ms = Math.min(50, ms * 1.2)) await delay(ms);
}
