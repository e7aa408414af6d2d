/** Looks again every few ms until it is so: a loop without a pause takes a core from what it waits for. */
import { setTimeout as delay } from 'node:timers/promises';

export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await delay(3);
}
