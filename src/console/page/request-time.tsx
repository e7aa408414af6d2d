/** Times of requests: the time of day in a list, with its day if it is not today's, and the whole of it on hover. */
import type { JSX } from 'preact';
import { agoText } from '../visible-text.ts';
import { clockText, dayText, timeText } from './time-zone.ts';

const millisecondsOf = (ms: number): string => `.${String(ms % 1_000).padStart(3, '0')}`;

export const clockOf = (ms: number, withMs = false): string =>
  `${clockText(ms)}${withMs ? millisecondsOf(ms) : ''}`;

/** With its day, unless that is today. */
export const whenText = (ms: number): string =>
  `${dayText(ms) === dayText(Date.now()) ? '' : `${dayText(ms)} `}${clockOf(ms)}`;

export function RequestTime({
  ms,
  fine = false,
  whole = false,
}: {
  readonly ms: number;
  readonly fine?: boolean;
  /** With its day, even today's. */
  readonly whole?: boolean;
}): JSX.Element {
  return (
    <time
      dateTime={new Date(ms).toISOString()}
      title={`${agoText(Date.now() - ms)}\n${new Date(ms).toISOString()}\n${(ms / 1_000).toFixed(3)}`}
    >
      {whole ? timeText(ms) : whenText(ms)}
      {fine ? <span class="ms">{millisecondsOf(ms)}</span> : null}
    </time>
  );
}
