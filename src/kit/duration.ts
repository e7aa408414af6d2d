/** A span of time as people write it in an option, and as they read it. Pure. */
import { PlainError } from './plain-error.ts';

/** `90s`, `15m`, `1h`, `7d` → seconds. */
export function spanOf(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined)
    throw new PlainError(`--since: "${text}" is not a span of time such as 15m, 1h or 7d`);
  return Number(count) * { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
}

/** `7 minutes`, `45 s`, `2 h 5 min`. */
export function spanText(seconds: number): string {
  const s = Math.round(Math.abs(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7_200)
    return s % 60 === 0 || s >= 600
      ? `${Math.round(s / 60)} minutes`
      : `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 172_800) return `${Math.floor(s / 3_600)} h ${Math.round((s % 3_600) / 60)} min`;
  return `${Math.round(s / 86_400)} days`;
}
