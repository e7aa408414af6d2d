/** How many in how long: `100/s`, `600/min`, `5000/h`. */
export interface Rate {
  readonly count: number;
  readonly perMs: number;
}

const units: Readonly<Record<string, number>> = { s: 1_000, min: 60_000, h: 3_600_000 };

/** null: the text is no rate. */
export function parseRate(text: string): Rate | null {
  const [, digits = '', unit = ''] = /^\s*([1-9]\d{0,8})\s*\/\s*(s|min|h)\s*$/.exec(text) ?? [];
  const perMs = units[unit];
  return perMs === undefined ? null : { count: Number(digits), perMs };
}
