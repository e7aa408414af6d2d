/**
 * What the suite tries of a long list: some of it in every run, others in the next. `npm run test:long` runs the files that
 * import this with all of it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { seededRandom } from './random.ts';

export const isLong = process.env['HEADGATE_TEST_LONG'] === 'true';

const { random, seed } = seededRandom();

/** To be told where a sample fails: HEADGATE_TEST_SEED chooses the same again. */
export const sampleSeed = `HEADGATE_TEST_SEED=${seed}`;

/** `count` of them, in their order. */
export function sampleOf<T>(all: readonly T[], count: number): readonly T[] {
  if (isLong) return all;
  const chosen = new Set<number>();
  while (chosen.size < Math.min(count, all.length)) chosen.add(Math.floor(random() * all.length));
  return all.filter((_, i) => chosen.has(i));
}

/** How often something is done. */
export const times = (few: number, many: number): number => (isLong ? many : few);

/** Between two requests of a sender of a load, which sends as fast as the machine can in the long run. */
export const breath = (): Promise<void> => (isLong ? Promise.resolve() : delay(20));
