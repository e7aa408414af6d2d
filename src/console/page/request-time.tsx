/** Times of requests: the time of day in a list, with its day if it is not today's, and the whole of it on hover. */
import type { JSX } from 'preact';
import { agoText } from '../shown.ts';
import { clockText, dayText } from './zone.ts';

export const dayOf = dayText;

export const clockOf = (ms: number, withMs = false): string => {
  const text = clockText(ms);
  return withMs ? `${text}.${String(ms % 1_000).padStart(3, '0')}` : text;
};

export function RequestTime({
  ms,
  fine = false,
}: {
  readonly ms: number;
  readonly fine?: boolean;
}): JSX.Element {
  const isToday = dayText(ms) === dayText(Date.now());
  return (
    <time
      dateTime={new Date(ms).toISOString()}
      title={`${agoText(Date.now() - ms)}\n${new Date(ms).toISOString()}\n${(ms / 1_000).toFixed(3)}`}
    >
      {isToday ? '' : `${dayOf(ms)} `}
      {clockOf(ms, fine)}
    </time>
  );
}
