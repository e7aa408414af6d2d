/** How many per time: `100/s`, `600/min`, `5000/h`; and how many of them at once: `100/s burst 50`. */
export interface Rate {
  readonly count: number;
  readonly perMs: number;
  /** How many may come at once: any `perMs` sees at most `count + burst`. */
  readonly burst: number;
}

const units: Readonly<Record<string, number>> = { s: 1_000, min: 60_000, h: 3_600_000 };
const form = /^\s*([1-9]\d{0,8})\s*\/\s*(s|min|h)(?:\s+burst\s+([1-9]\d{0,8}))?\s*$/;

/** null: the text is no rate. */
export function parseRate(text: string): Rate | null {
  const [, digits = '', unit = '', burst] = form.exec(text) ?? [];
  const perMs = units[unit];
  const count = Number(digits);
  if (perMs === undefined) return null;
  return { count, perMs, burst: burst === undefined ? usualBurst(count) : Number(burst) };
}

/** A tenth of the number, but at least 10, or the number itself if that is less. */
export function usualBurst(count: number): number {
  return Math.max(Math.min(count, 10), Math.ceil(count / 10));
}
