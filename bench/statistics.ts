/** Medians, and a histogram that holds millions of latencies in a few kilobytes. Pure. */

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Buckets per power of two: a quantile's error is at most half a 128th. */
const perOctave = 128;
/** µs; up to here every bucket is 1 µs wide. */
const exactBelow = 256;
/** 2^31 µs: more than half an hour. */
const bucketsMax = exactBelow + (31 - 8) * perOctave;

/** Counts latencies in buckets proportional to their size. Times are passed and returned in ms. */
export class Latencies {
  readonly #buckets = new Uint32Array(bucketsMax);
  #count = 0;
  #maxMs = 0;

  get count(): number {
    return this.#count;
  }

  get maxMs(): number {
    return this.#maxMs;
  }

  add(ms: number): void {
    const us = Math.min(Math.max(Math.round(ms * 1_000), 0), 2 ** 31 - 1);
    const at = bucketOf(us);
    this.#buckets[at] = (this.#buckets[at] ?? 0) + 1;
    this.#count += 1;
    if (ms > this.#maxMs) this.#maxMs = ms;
  }

  /** ms, the middle of the bucket that contains the share `q`; NaN if empty. */
  at(q: number): number {
    if (this.#count === 0) return Number.NaN;
    let left = Math.max(1, Math.ceil(q * this.#count));
    for (let bucket = 0; bucket < bucketsMax; bucket++) {
      left -= this.#buckets[bucket] ?? 0;
      if (left <= 0) return middleOf(bucket) / 1_000;
    }
    return this.#maxMs;
  }

  /** What a load generator reports of its requests; times in ms. */
  figures(): { readonly requests: number; readonly p50: number; readonly p99: number; readonly max: number } {
    return { requests: this.#count, p50: this.at(0.5), p99: this.at(0.99), max: this.#maxMs };
  }
}

function bucketOf(us: number): number {
  if (us < exactBelow) return us;
  const octave = 31 - Math.clz32(us);
  return exactBelow + (octave - 8) * perOctave + ((us >>> (octave - 7)) & (perOctave - 1));
}

function middleOf(bucket: number): number {
  if (bucket < exactBelow) return bucket;
  const octave = 8 + Math.floor((bucket - exactBelow) / perOctave);
  const width = 2 ** (octave - 7);
  return 2 ** octave + ((bucket - exactBelow) % perOctave) * width + (width - 1) / 2;
}
