/**
 * The formats of a stream of rows: server-sent events, or lines of JSON. Takes rows as JSON texts and places, returns the text to send. Pure.
 */
import { limits } from '../config/limits.ts';
import { printPlace } from './stream-position.ts';
import type { Place } from './stream-position.ts';

export interface StreamForm {
  readonly type: string;
  /** The beginning of a stream. */
  readonly begin: (place: Place) => string;
  /** A batch: its last row carries the place after it. */
  readonly rows: (rows: readonly string[], after: Place) => string;
  /** For when there was nothing to send for a while. */
  readonly silence: (place: Place) => string;
  /** Why the stream ends; `answer`: as JSON. */
  readonly refused: (answer: string) => string;
  /** The stream ends; clients that reconnect can continue. */
  readonly comeAgain: string;
}

/** An event without data is not dispatched, but its id is remembered. */
const idOf = (place: Place): string => `id: ${printPlace(place)}\n\n`;
const lineOf = (place: Place): string => `{"position":"${printPlace(place)}"}\n`;

const serverSentEvents: StreamForm = {
  type: 'text/event-stream',
  begin: (place) => `retry: ${limits.streamAgainMs}\n${idOf(place)}`,
  rows: (rows, after) =>
    rows
      .map((row, i) => `${i < rows.length - 1 ? '' : `id: ${printPlace(after)}\n`}data: ${row}\n\n`)
      .join(''),
  silence: (place) => `:\n${idOf(place)}`,
  refused: (answer) => `event: refused\ndata: ${answer}\n\n`,
  comeAgain: ': come again\n\n',
};

const lines: StreamForm = {
  type: 'application/x-ndjson',
  begin: lineOf,
  rows: (rows, after) =>
    rows
      .map((row, i) => `{${i < rows.length - 1 ? '' : `"position":"${printPlace(after)}",`}"row":${row}}\n`)
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
