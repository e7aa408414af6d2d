/**
 * The sample of a long list that the suite tries: other items in every run. `npm run test:long` runs the files that import
 * this with all of it.
 */
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { seededRandom } from './random.ts';
import { debianBin, embeddedBin } from './server.ts';

export const isLong = process.env['HEADGATE_TEST_LONG'] === 'true';

const { random, seed } = seededRandom();

/** Print this where a sample fails: HEADGATE_TEST_SEED chooses the same one again. */
export const sampleSeed = `HEADGATE_TEST_SEED=${seed}`;

/** `count` of them, in their order. */
export function sampleOf<T>(all: readonly T[], count: number): readonly T[] {
  if (isLong) return all;
  const chosen = new Set<number>();
  while (chosen.size < Math.min(count, all.length)) chosen.add(Math.floor(random() * all.length));
  return all.filter((_, i) => chosen.has(i));
}

/** Registers `count` of the next `total` tests, others in each run; in the long run each. */
export function sampledTests(count: number, total: number): Further {
  const places = sampleOf(
    Array.from({ length: total }, (_, place) => place),
    count,
  );
  let next = 0;
  return (name, run) => {
    if (places.includes(next++)) void test(name, run);
  };
}

/** The programs of PostgreSQL 18 and, if it is installed, of 15: one of them, another one in each run, and in the long run each. */
export function someVersion(): readonly (readonly [version: string, bin: string])[] {
  const versions = [
    ['18', embeddedBin],
    ['15', debianBin],
  ] as const;
  return sampleOf(
    versions.filter(([, bin]) => existsSync(bin)),
    1,
  );
}

/** How often something is done. */
export const times = (few: number, many: number): number => (isLong ? many : few);

/** The pause between two requests of a sender under load; in the long run it sends as fast as the machine can. */
export const breath = (): Promise<void> => (isLong ? Promise.resolve() : delay(20));

export type Further = (name: string, run: (t: TestContext) => Promise<void>) => unknown;

/** Registers a test in the long run alone. */
export const inLong: Further = (name, run) => {
  if (isLong) void test(name, run);
};
