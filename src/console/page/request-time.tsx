/** Times of requests: the time of day in a list, with its day if it is not today's, and the whole of it on hover. */
import type { JSX } from 'preact';
import { agoText } from '../shown.ts';

export const dayOf = (ms: number): string =>
  new Date(ms).toLocaleDateString(undefined, { weekday: 'short', day: 'numeric', month: 'short' });

export const clockOf = (ms: number, withMs = false): string => {
  const text = new Date(ms).toLocaleTimeString(undefined, { hour12: false });
  return withMs ? `${text}.${String(ms % 1_000).padStart(3, '0')}` : text;
};

export function RequestTime({
  ms,
  fine = false,
}: {
  readonly ms: number;
  readonly fine?: boolean;
}): JSX.Element {
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
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
