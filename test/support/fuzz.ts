/** Mutations for the fuzz runs: valid bytes, corrupted at random. */

export type Random = () => number;

const upTo = (random: Random, n: number) => Math.floor(random() * n);

export function pick<T>(random: Random, of: readonly T[]): T {
  const it = of[upTo(random, of.length)];
  if (it === undefined) throw new Error('there is something to pick from');
  return it;
}

const interesting = [0, 1, 9, 10, 13, 32, 34, 39, 44, 58, 92, 91, 93, 123, 125, 127, 128, 192, 237, 244, 255];

/** One to six edits: bytes changed, inserted, removed, repeated, moved; or the rest cut off. */
export function mutate(random: Random, seed: Buffer): Buffer {
  let bytes = Buffer.from(seed);
  for (let edits = 1 + upTo(random, 6); edits > 0; edits--) {
    const at = upTo(random, bytes.length + 1);
    const to = Math.min(bytes.length, at + 1 + upTo(random, 16));
    const [before, piece, after] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)];
    const byte = Buffer.from([random() < 0.5 ? pick(random, interesting) : upTo(random, 256)]);
    const edited: Record<number, () => Buffer[]> = {
      0: () => [before, byte, bytes.subarray(at + 1)],
      1: () => [before, byte, bytes.subarray(at)],
      2: () => [before, after],
      3: () => [before, ...Array.from({ length: 1 + upTo(random, 40) }, () => piece), after],
      4: () => [after, piece, before],
      5: () => (random() < 0.2 ? [before] : [before, byte, byte, after]),
    };
    bytes = Buffer.concat(edited[upTo(random, 6)]?.() ?? [bytes]);
  }
  return bytes;
}
