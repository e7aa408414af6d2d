/** Reproducible random numbers: a test prints its seed, HEADGATE_TEST_SEED repeats it. */
import { randomInt } from 'node:crypto';

export function seededRandom(): { seed: number; random: () => number } {
  const seed = Number(process.env['HEADGATE_TEST_SEED'] ?? randomInt(2 ** 31));
  let state = seed;
  // mulberry32: 32 bits of state are enough to choose times.
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { seed, random };
}
