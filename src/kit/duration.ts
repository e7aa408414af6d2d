/** A span of time as people write it in an option, and as they read it. Pure. */
import { PlainError } from './plain-error.ts';

/** `90s`, `15m`, `1h`, `7d` → seconds. */
export function spanOf(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined)
    throw new PlainError(`--since: "${text}" is not a span of time such as 15m, 1h or 7d`);
  return Number(count) * { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
}

/** Seconds → `40 s`, `3 min`, `2 h`: rounded, in the largest unit of which there are two. */
export function spanText(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}
