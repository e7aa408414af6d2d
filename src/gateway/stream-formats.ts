/**
 * The formats of a stream of rows: server-sent events, or lines of JSON. Takes rows as JSON texts and places, returns the text to send. Pure.
 */
import { limits } from '../config/limits.ts';
import { printPlace } from './stream-position.ts';
import type { StreamPosition } from './stream-position.ts';

/** The place after a row of a batch, counted from 0; null: it carries none. */
export type PlaceAfter = (row: number) => StreamPosition | null;

/** How often rows carry their place at most: readers that want it as often share a reading. */
const steps = [10_000, 1_000, 100, 10, 1];

/** The next lower of few steps; null: only the last row of a batch. Refuses (undefined) what is no number from 1 to 10,000. */
export function stepOf(batch: string | undefined): number | null | undefined {
  if (batch === undefined) return null;
  const rows = /^\d{1,5}$/.test(batch) ? Number(batch) : 0;
  return rows > 10_000 ? undefined : steps.find((step) => step <= rows);
}

/** `behind`: the place after each row, `after`: after all of them. */
export const placesEvery =
  (step: number | null, count: number, behind: PlaceAfter, after: StreamPosition): PlaceAfter =>
  (row) => {
    if (row === count - 1) return after;
    return step !== null && (row + 1) % step === 0 ? behind(row) : null;
  };

export interface StreamForm {
  readonly type: string;
  /** The beginning of a stream. */
  readonly begin: (place: StreamPosition) => string;
  /** A batch: the rows for which there is a place carry it. */
  readonly rows: (rows: readonly string[], places: PlaceAfter) => string;
  /** For when there was nothing to send for a while. */
  readonly silence: (place: StreamPosition) => string;
  /** Why the stream ends; `answer`: as JSON. */
  readonly refused: (answer: string) => string;
  /** The stream ends; clients that reconnect can continue. */
  readonly comeAgain: string;
}

/** An event without data is not dispatched, but its id is remembered. */
const idOf = (place: StreamPosition): string => `id: ${printPlace(place)}\n\n`;
const lineOf = (place: StreamPosition): string => `{"position":"${printPlace(place)}"}\n`;

const serverSentEvents: StreamForm = {
  type: 'text/event-stream',
  begin: (place) => `retry: ${limits.streamAgainMs}\n${idOf(place)}`,
  rows: (rows, places) =>
    rows
      .map((row, i) => {
        const place = places(i);
        return `${place === null ? '' : `id: ${printPlace(place)}\n`}data: ${row}\n\n`;
      })
      .join(''),
  silence: (place) => `:\n${idOf(place)}`,
  refused: (answer) => `event: refused\ndata: ${answer}\n\n`,
  comeAgain: ': come again\n\n',
};

const lines: StreamForm = {
  type: 'application/x-ndjson',
  begin: lineOf,
  rows: (rows, places) =>
    rows
      .map((row, i) => {
        const place = places(i);
        return `{${place === null ? '' : `"position":"${printPlace(place)}",`}"row":${row}}\n`;
      })
      .join(''),
  silence: lineOf,
  refused: (answer) => `{"refused":${answer}}\n`,
  comeAgain: '{"again":true}\n',
};

/** `accept`: the request's header. Anything but a request for lines gets events. */
export function formFor(accept: string | undefined): StreamForm {
  return /^\s*application\/x-ndjson\s*(?:;|,|$)/i.test(accept ?? '') ? lines : serverSentEvents;
}

/** The media types of a stream. */
export const streamTypes: readonly string[] = [serverSentEvents.type, lines.type];
