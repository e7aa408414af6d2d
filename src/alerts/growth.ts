/**
 * How much counts have grown within a time window. Takes a count's value at a moment; a count seen for the first time grew from zero,
 * because its process started with this one. A count that decreased has been reset. Bounded in counts and points.
 */
import { limits } from '../config/limits.ts';

interface Point {
  readonly atMs: number;
  readonly value: number;
}

export class Growth {
  /** By id: earlier values, each with the time it was first seen; the window starts at the first point. */
  readonly #counts = new Map<string, Point[]>();

  grown(id: string, value: number, windowMs: number, nowMs: number): number {
    let points = this.#counts.get(id);
    if (points === undefined) {
      if (value === 0 || this.#counts.size >= limits.alertCountsMax) return 0;
      points = [{ atMs: nowMs - windowMs, value: 0 }];
      this.#counts.set(id, points);
    }
    const last = points.at(-1);
    if (last !== undefined && value < last.value)
      points.splice(0, points.length, { atMs: nowMs - windowMs, value: 0 });
    // Points close together are merged, so the start of the window may be slightly too old.
    if (value !== last?.value) {
      const near =
        points.length > 1 && nowMs - (points.at(-1)?.atMs ?? 0) < windowMs / (limits.alertPointsMax / 2);
      if (near) points[points.length - 1] = { atMs: points.at(-1)?.atMs ?? nowMs, value };
      else points.push({ atMs: nowMs, value });
    }
    while (points.length > 1 && (points[1]?.atMs ?? nowMs) <= nowMs - windowMs) points.shift();
    return value - (points[0]?.value ?? value);
  }
}
