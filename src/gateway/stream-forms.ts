/** How a stream of rows is written: as server-sent events, or as JSON a line. Takes rows as JSON texts and places, gives what is sent. Pure. */
import { limits } from '../tables/limits.ts';
import { printPlace } from './stream-place.ts';
import type { Place } from './stream-place.ts';

export interface StreamForm {
  readonly type: string;
  /** What a stream begins with. */
  readonly begin: (place: Place) => string;
  /** A batch: the last of its rows has the place behind it. */
  readonly rows: (rows: readonly string[], after: Place) => string;
  /** Nothing was to be told for a while. */
  readonly silence: (place: Place) => string;
  /** Why it ends; `answer`: as JSON. */
  readonly refused: (answer: string) => string;
  /** It ends, and goes on with whoever comes again. */
  readonly comeAgain: string;
}

/** Of an event without data nobody is told, and its id is remembered. */
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

/** `accept`: what the request says that it takes. Whoever says nothing of lines gets events. */
export function formFor(accept: string | undefined): StreamForm {
  return /^\s*application\/x-ndjson\s*(?:;|,|$)/i.test(accept ?? '') ? lines : serverSentEvents;
}

/** What a stream may be written as. */
export const streamTypes: readonly string[] = [serverSentEvents.type, lines.type];
