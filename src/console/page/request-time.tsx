/** Times of requests: the time of day in a list, with its day if it is not today's, and the whole of it on hover. */
import type { JSX } from 'preact';
import { agoText } from '../visible-text.ts';
import { clockText, dayText } from './time-zone.ts';

export const clockOf = (ms: number, withMs = false): string => {
  const text = clockText(ms);
  return withMs ? `${text}.${String(ms % 1_000).padStart(3, '0')}` : text;
};

/** With its day, unless that is today. */
export const whenText = (ms: number, withMs = false): string =>
  `${dayText(ms) === dayText(Date.now()) ? '' : `${dayText(ms)} `}${clockOf(ms, withMs)}`;

export function RequestTime({
  ms,
  fine = false,
}: {
  readonly ms: number;
  readonly fine?: boolean;
}): JSX.Element {
  return (
    <time
      dateTime={new Date(ms).toISOString()}
      title={`${agoText(Date.now() - ms)}\n${new Date(ms).toISOString()}\n${(ms / 1_000).toFixed(3)}`}
    >
      {whenText(ms, fine)}
    </time>
  );
}
