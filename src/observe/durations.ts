/** How long requests took, counted in classes, as headgate.traffic_minute has them (`took`), and what is said of them. Pure. */

/** Upper bounds of the classes, in ms; headgate.quantile() has the same, and one class more without a bound. */
export const tookBoundsMs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000] as const;

/** The bound that this part of the requests took at most, as headgate.quantile() says it; null: there were none. */
export function quantileMs(took: readonly number[], part: number): number | null {
  const all = took.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let upTo = 0;
  const place = took.findIndex((count) => (upTo += count) >= part * all);
  return tookBoundsMs[place] ?? Number.POSITIVE_INFINITY;
}
