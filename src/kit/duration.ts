/** A span of time as people write it in an option. Pure. */
import { PlainError } from './plain-error.ts';

/** `90s`, `15m`, `1h`, `7d` → seconds. */
export function spanOf(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined)
    throw new PlainError(`--since: "${text}" is not a span of time such as 15m, 1h or 7d`);
  return Number(count) * { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
}
